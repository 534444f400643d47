#pragma once

#include <memory>

#include "ferry/transfer/edge.h"

namespace ferry::transfer {

struct DynamicOptions : ReceiverOptions {
  // Tensors no larger than the pad travel with their metadata in one write. The receiver keeps the
  // pad as large as recent tensors need, from `pad` up to `most_pad` bytes for each slot.
  std::uint64_t pad = std::uint64_t{16} << 10;
  std::uint64_t most_pad = std::uint64_t{4} << 20;
  // Larger ones are used in the sender's memory where the path maps it; false: they are read.
  bool in_place = true;
};

// The receiving end of an edge whose tensors have one type and rank but any shape that `spec`
// admits. A tensor that fits the pad is there when its flag is; a larger one is used in the
// sender's memory where the path maps it, else read into registered memory. One thread at a time,
// but arrivals may be let go of by any. Must not outlive its device and channel, which stay where
// they are.
class DynamicReceiver {
 public:
  static Result<DynamicReceiver> open(fabric::Device& device, fabric::Channel& channel,
                                      const tensor::Spec& spec, DynamicOptions options = {});
  DynamicReceiver(DynamicReceiver&&) noexcept;
  DynamicReceiver& operator=(DynamicReceiver&&) noexcept;
  ~DynamicReceiver();

  // For the sender: plain data. It is good for one DynamicSender.
  const Ticket& ticket() const;

  // Whether receive() would return at once; starts the read of a large tensor. Never blocks.
  Result<bool> ready();
  // Whether ready() might say more than last time: a plain look, for the condition of a
  // Device::wait_until().
  bool may_be_ready() const;
  // The next tensor. Failures as of StaticReceiver::receive(); kDataLoss also for metadata that the
  // edge does not admit; kResourceExhausted while there is no memory to read a large one to: it
  // waits where it is.
  Result<Arrival> receive(Deadline deadline, fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  EdgeStats stats() const;

 private:
  struct Core;
  explicit DynamicReceiver(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// The sending end. One thread at a time. Must not outlive its device and channel, which stay where
// they are.
class DynamicSender {
 public:
  // kInvalidArgument unless the ticket is for tensors of this type and shape; kFailedPrecondition
  // for a ticket of another device, or of an earlier run of the peer.
  static Result<DynamicSender> open(fabric::Device& device, fabric::Channel& channel,
                                    const Ticket& ticket, const tensor::Spec& spec,
                                    SenderOptions options = {});
  DynamicSender(DynamicSender&&) noexcept;
  DynamicSender& operator=(DynamicSender&&) noexcept;
  // Waits for what is still being written.
  ~DynamicSender();

  // Where a tensor like this is best produced: the receiver's pad itself where the path maps it, it
  // is free and the tensor fits; else registered memory that the receiver can read. Good until
  // send() or the next output(); what it holds is left over.
  Result<tensor::Tensor> output(const tensor::Spec& spec);
  bool output_in_place() const;
  // Whether a slot is free: send() would not wait. Never blocks.
  Result<bool> ready();
  // Sends what output() gave, or any tensor that the edge admits; of those that fit no pad, memory
  // that is not from output() is copied first. Returns when the memory may be used again, but for
  // output()'s, which goes back to the edge. kDeadlineExceeded names a tensor that the receiver
  // does not let go of: nothing was sent, and send() may be called again. kAborted: the deadline
  // came while the bytes were on their way. After this and any other failure the edge is opened
  // anew.
  Status send(const tensor::Tensor& tensor, Deadline deadline);
  // The same without waiting: false if no slot is free, and nothing was done. The tensor's memory
  // is the edge's until finished() says true, and so is the edge: no other call but those two.
  Result<bool> start(const tensor::Tensor& tensor);
  // Whether what start() has begun has ended; a failure of it is told once.
  Result<bool> finished();
  // Whether start(), or finished() while a tensor is under way, might say more than last time: a
  // plain look, for the condition of a Device::wait_until().
  bool may_be_ready() const;
  // Waits until the receiver has let go of every tensor that was sent.
  Status drain(Deadline deadline);
  EdgeStats stats() const;

 private:
  struct Core;
  explicit DynamicSender(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::transfer
