// Data path.
#include <atomic>
#include <cstring>

#include "ferry/runtime/buffers.h"
#include "ferry/runtime/ferry_ends_internal.h"

namespace ferry::runtime {
namespace {

tl::unexpected<Error> from_task(const std::string& task, const Error& error) {
  return tl::unexpected(Error(error.code(), fmt::format("{}: {}", task, error.message()),
                              error.os_code(), error.file(), error.line()));
}

// Memory of an edge as a tensor of this type and shape.
Result<tensor::Tensor> memory_of(transfer::StaticSender& sender, const tensor::Spec&) {
  return sender.output();
}
Result<tensor::Tensor> memory_of(transfer::DynamicSender& sender, const tensor::Spec& spec) {
  return sender.output(spec);
}

template <class Sender>
class EdgeSendEnd final : public SendEnd {
 public:
  EdgeSendEnd(Sender sender, const tensor::Spec& spec, Copies copies, const std::string& peer)
      : sender_(std::move(sender)), spec_(spec), copies_(copies), peer_(peer) {}

  Result<std::optional<tensor::Tensor>> output(const tensor::Spec& spec) override {
    if (copies_ != Copies::kNone || !spec_.admits(spec)) return std::optional<tensor::Tensor>();
    auto memory = memory_of(sender_, spec);
    if (!memory) return from_task(peer_, memory.error());
    // With a share of the end's own: whoever looks can tell a tensor from one with views.
    return std::optional(FERRY_TRY(tensor::Tensor::over(spec, memory->bytes(), token_)));
  }

  Result<bool> start(const tensor::Tensor& tensor, std::uint64_t) override {
    const auto begun = now_ns();
    auto started = copies_ == Copies::kNone ? sender_.start(tensor) : start_copy(tensor);
    if (!started) return from_task(peer_, started.error());
    if (*started) {
      bytes_ += tensor.bytes().size();
      begun_ = begun;
    }
    return started;
  }
  Result<bool> finished() override {
    auto finished = sender_.finished();
    if (!finished) return from_task(peer_, finished.error());
    if (*finished) transfer_ns_ += static_cast<std::uint64_t>(now_ns() - begun_);
    return finished;
  }
  bool may_be_ready() const override { return sender_.may_be_ready(); }
  CrossingStats stats() const override {
    const auto edge = sender_.stats();
    return {.tensors = edge.tensors,
            .bytes = bytes_,
            .in_place = edge.in_place,
            .copies = edge.copies + copied_,
            // The edge sends copies from registered memory; the tensors lay elsewhere.
            .registered = edge.registered - copied_,
            .transfer_ns = transfer_ns_};
  }

 private:
  Result<bool> start_copy(const tensor::Tensor& tensor) {
    if (!FERRY_TRY(sender_.ready())) return sender_.start(tensor);  // says no, or why not
    const auto memory = FERRY_TRY(memory_of(sender_, tensor.spec()));
    if (!tensor.bytes().empty()) std::memcpy(memory.data(), tensor.data(), tensor.bytes().size());
    ++copied_;
    return sender_.start(memory);
  }

  Sender sender_;
  const tensor::Spec spec_;
  const Copies copies_;
  const std::string peer_;
  const std::shared_ptr<void> token_ = std::make_shared<char>();
  std::uint64_t bytes_ = 0;
  std::uint64_t copied_ = 0;
  std::int64_t begun_ = 0;  // the send under way
  std::uint64_t transfer_ns_ = 0;
};

// Tensors that the receiver has used in the sender's memory. A static edge has none: what is in
// place there was produced in the receiver's slot, and the sender counts it.
std::uint64_t used_in_sender(const transfer::StaticReceiver&) { return 0; }
std::uint64_t used_in_sender(const transfer::DynamicReceiver& receiver) {
  return receiver.stats().in_place;
}

// A tensor in memory of its own, instead of the edge's.
Result<tensor::Tensor> private_copy(Buffers& buffers, const tensor::Tensor& tensor) {
  auto copy = FERRY_TRY(buffers.take(tensor.spec()));
  if (!tensor.bytes().empty()) std::memcpy(copy.data(), tensor.data(), tensor.bytes().size());
  buffers.give(copy);
  return copy;
}

// As a tensor whose last share lets go of the arrival.
tensor::Tensor keep_arrival(transfer::Arrival arrival) {
  auto kept = std::make_shared<transfer::Arrival>(std::move(arrival));
  const auto& tensor = kept->tensor();
  auto shared = tensor::Tensor::over(tensor.spec(), tensor.bytes(), kept);
  FERRY_ASSERT(shared.has_value(), "what was a tensor is one with a share, too");
  return *std::move(shared);
}

template <class Receiver>
class EdgeReceiveEnd final : public ReceiveEnd {
 public:
  EdgeReceiveEnd(Receiver receiver, fabric::Channel& channel, Copies copies,
                 const std::string& peer)
      : receiver_(std::move(receiver)), channel_(channel), copies_(copies), peer_(peer) {}

  Status expect(std::uint64_t) override { return {}; }
  Result<bool> ready(std::uint64_t) override {
    auto ready = receiver_.ready();
    if (!ready) return from_task(peer_, ready.error());
    time_read(*ready);
    if (*ready || channel_.alive()) return ready;
    // Nothing will come any more, and receive() says why; or it has come just now.
    auto last = receiver_.receive({});
    if (last) return from_task(peer_, Error(Code::kUnavailable, "is gone", 0, __FILE__, __LINE__));
    if (last.error().code() == Code::kDeadlineExceeded) return false;
    return from_task(peer_, last.error());
  }
  bool may_be_ready(std::uint64_t) const override { return receiver_.may_be_ready(); }
  Result<tensor::Tensor> take() override {
    auto arrival = receiver_.receive({});
    if (!arrival) return from_task(peer_, arrival.error());
    if (copies_ != Copies::kBoth) return keep_arrival(*std::move(arrival));
    ++copied_;
    return private_copy(buffers_, arrival->tensor());
  }
  CrossingStats stats() const override {
    CrossingStats stats;
    stats.in_place = used_in_sender(receiver_);
    stats.copies = copied_;
    stats.transfer_ns = transfer_ns_;
    return stats;
  }

 private:
  // Notes when the receiver has begun to read a large tensor, and when the tensor is there.
  void time_read(bool arrived) {
    if (const auto reads = receiver_.stats().reads; reads != reads_) {
      reads_ = reads;
      read_begun_ = now_ns();
    }
    if (!arrived || read_begun_ == 0) return;
    transfer_ns_ += static_cast<std::uint64_t>(now_ns() - std::exchange(read_begun_, 0));
  }

  Receiver receiver_;
  fabric::Channel& channel_;
  const Copies copies_;
  const std::string peer_;
  Buffers buffers_{make_ordinary_block};
  std::uint64_t copied_ = 0;
  std::uint64_t reads_ = 0;      // that the receiver had begun when it was last asked
  std::int64_t read_begun_ = 0;  // 0: none is under way
  std::uint64_t transfer_ns_ = 0;
};

// Says when it is let go of whether the version was this task's until then.
struct KeptVersion {
  transfer::Arrival version;
  std::shared_ptr<std::atomic<bool>> lease_lost;

  KeptVersion(transfer::Arrival held, std::shared_ptr<std::atomic<bool>> lost)
      : version(std::move(held)), lease_lost(std::move(lost)) {}
  KeptVersion(const KeptVersion&) = delete;
  KeptVersion& operator=(const KeptVersion&) = delete;
  ~KeptVersion() {
    if (!version.release()) lease_lost->store(true, std::memory_order_release);
  }
};

class SharedReceiveEnd final : public ReceiveEnd {
 public:
  SharedReceiveEnd(transfer::SharedReader reader, fabric::Channel& channel, bool every_step,
                   const std::string& peer)
      : reader_(std::move(reader)), channel_(channel), every_step_(every_step), peer_(peer) {}

  Status expect(std::uint64_t) override { return {}; }
  Result<bool> ready(std::uint64_t step) override {
    least_ = every_step_ ? step : 1;
    FERRY_TRY(check_lease());
    if (reader_.ready(least_)) return true;
    if (channel_.alive()) return false;
    const auto read = reader_.read(least_, {});
    if (!read && read.error().code() != Code::kDeadlineExceeded)
      return from_task(peer_, read.error());
    return false;
  }
  bool may_be_ready(std::uint64_t step) const override {
    return reader_.ready(every_step_ ? step : 1) || !channel_.alive();
  }
  Result<tensor::Tensor> take() override {
    FERRY_TRY(check_lease());
    auto version = reader_.read(least_, Deadline::after(std::chrono::seconds(1)));
    if (!version) return from_task(peer_, version.error());
    auto kept = std::make_shared<KeptVersion>(*std::move(version), lease_lost_);
    const auto& tensor = kept->version.tensor();
    return tensor::Tensor::over(tensor.spec(), tensor.bytes(), kept);
  }
  CrossingStats stats() const override {
    CrossingStats stats;
    stats.copies = reader_.stats().copies;
    return stats;
  }

 private:
  Status check_lease() const {
    if (!lease_lost_->load(std::memory_order_acquire)) return {};
    return fail(
        Code::kUnavailable,
        "{}: it is gone, or has given this task up while the task used its tensor: what was "
        "read may have been overwritten",
        peer_);
  }

  transfer::SharedReader reader_;
  fabric::Channel& channel_;
  const bool every_step_;
  const std::string peer_;
  std::uint64_t least_ = 1;
  // Set by whichever thread drops the last share of a version.
  const std::shared_ptr<std::atomic<bool>> lease_lost_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

std::unique_ptr<SendEnd> static_send_end(transfer::StaticSender sender, const tensor::Spec& spec,
                                         Copies copies, const std::string& peer) {
  return std::make_unique<EdgeSendEnd<transfer::StaticSender>>(std::move(sender), spec, copies,
                                                               peer);
}
std::unique_ptr<SendEnd> dynamic_send_end(transfer::DynamicSender sender, const tensor::Spec& spec,
                                          Copies copies, const std::string& peer) {
  return std::make_unique<EdgeSendEnd<transfer::DynamicSender>>(std::move(sender), spec, copies,
                                                                peer);
}
std::unique_ptr<ReceiveEnd> static_receive_end(transfer::StaticReceiver receiver,
                                               fabric::Channel& channel, Copies copies,
                                               const std::string& peer) {
  return std::make_unique<EdgeReceiveEnd<transfer::StaticReceiver>>(std::move(receiver), channel,
                                                                    copies, peer);
}
std::unique_ptr<ReceiveEnd> dynamic_receive_end(transfer::DynamicReceiver receiver,
                                                fabric::Channel& channel, Copies copies,
                                                const std::string& peer) {
  return std::make_unique<EdgeReceiveEnd<transfer::DynamicReceiver>>(std::move(receiver), channel,
                                                                     copies, peer);
}
std::unique_ptr<ReceiveEnd> shared_receive_end(transfer::SharedReader reader,
                                               fabric::Channel& channel, bool every_step,
                                               const std::string& peer) {
  return std::make_unique<SharedReceiveEnd>(std::move(reader), channel, every_step, peer);
}

}  // namespace ferry::runtime
