// Data path.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "ferry/landing/launch.h"
#include "ferry/mail/mail_path_internal.h"
#include "ferry/mail/mail_signals_internal.h"

namespace ferry::mail {

// A batch that is being put together, in a slot of the peer's or in staging.
struct MailOpenBatch {
  std::span<std::byte> body;
  MailBatch head;
  std::byte* end() const { return body.data() + MailBatch::kBytes + head.bytes; }
  std::uint64_t room() const { return body.size() - MailBatch::kBytes - head.bytes; }
  void add(std::uint64_t bytes) {
    head.bytes += static_cast<std::uint32_t>(bytes);
    ++head.records;
  }
};

// Fills slots of the peer, in order: straight where the path maps them, else from staging of this
// end. Runs under the mailbox's lock, but for the callbacks of its writes. A slot that slot_free()
// has found stays free until close(). A failure breaks the mailbox.
class MailBatchWriter {
 public:
  // `stages` slots may be on their way at once, each with `path.batch_body` bytes of `staging`: no
  // more than this end has itself, whatever the peer says that it has.
  MailBatchWriter(const MailPath& path, MailOutSignals& signals, landing::Launch launch,
                  fabric::Region staging, std::uint32_t stages)
      : path_(path),
        signals_(signals),
        launch_(std::move(launch)),
        staging_(std::move(staging)),
        count_(stages),
        stages_(std::make_unique<Stage[]>(stages)) {}

  Result<bool> slot_free() const {
    auto free = launch_.free();
    if (!free || !*free || path_.maps) return free;
    return !stages_[next_].writing.load(std::memory_order_acquire);
  }
  // Tells the signals what slot is waited for, then looks once more. True: it is free after all.
  Result<bool> block_on_slot();

  MailOpenBatch open() const {
    if (path_.maps) return {launch_.body(), {}};
    return {staging_.bytes().subspan(next_ * path_.batch_body, path_.batch_body), {}};
  }
  Status close(const MailOpenBatch& batch) {
    batch.head.store(batch.body.data());
    if (path_.maps) return launch_.publish();
    write(batch.body.first(MailBatch::kBytes + batch.head.bytes));
    return {};
  }
  // How the writes ended that nobody has looked at.
  Status check_writes();

  std::uint64_t posted() const { return posted_; }
  void cancel_all() {
    for (std::uint32_t i = 0; i < count_; ++i) stages_[i].transfer.cancel();
  }

 private:
  struct Stage {  // a batch on its way, where the path does not map the peer
    std::atomic<bool> writing{false};
    std::optional<Error> error;
    fabric::Transfer transfer;
  };
  // Writes the batch to its slot, out of the stage that it was put together in.
  void write(std::span<const std::byte> bytes);

  const MailPath& path_;
  MailOutSignals& signals_;
  landing::Launch launch_;
  fabric::Region staging_;
  const std::uint32_t count_;
  std::unique_ptr<Stage[]> stages_;
  std::uint32_t next_ = 0;    // stage
  std::uint64_t posted_ = 0;  // writes
};

}  // namespace ferry::mail
