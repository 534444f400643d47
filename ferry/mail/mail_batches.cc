// Data path.
#include "ferry/mail/mail_batches_internal.h"

namespace ferry::mail {

void MailBatchWriter::write(std::span<const std::byte> bytes) {
  auto* stage = &stages_[next_];
  next_ = next_ + 1 == count_ ? 0 : next_ + 1;
  stage->writing.store(true, std::memory_order_relaxed);
  ++posted_;
  auto ended = [&signals = signals_, stage](const Status& status) {
    if (!status) {
      stage->error = status.error();
      signals.bad_writes.fetch_add(1, std::memory_order_release);
    }
    stage->writing.store(false, std::memory_order_release);
    signals.writes_ended.fetch_add(1, std::memory_order_release);
  };
  stage->transfer = launch_.write(bytes, 0, {.callback = ended, .pace = fabric::Pace::kLateEnd});
}

Result<bool> MailBatchWriter::block_on_slot() {
  signals_.slot_word.store(launch_.free_word(), std::memory_order_relaxed);
  signals_.slot_busy.store(launch_.busy_value(), std::memory_order_relaxed);
  if (!path_.maps) signals_.stage_writing.store(&stages_[next_].writing, std::memory_order_relaxed);
  signals_.blocked.exchange(true, std::memory_order_seq_cst);
  auto free = slot_free();
  if (free && *free) signals_.blocked.store(false, std::memory_order_relaxed);
  return free;
}

Status MailBatchWriter::check_writes() {
  if (signals_.bad_writes.load(std::memory_order_acquire) == 0) return {};
  signals_.bad_writes.store(0, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count_; ++i)
    if (!stages_[i].writing.load(std::memory_order_acquire) && stages_[i].error)
      return tl::unexpected<Error>(*stages_[i].error);
  return {};
}

}  // namespace ferry::mail
