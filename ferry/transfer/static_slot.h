#pragma once

#include <memory>

#include "ferry/transfer/edge.h"

namespace ferry::transfer {

// The receiving end of an edge whose tensors all have one shape. The slots are preallocated; the
// sender writes into them; the receiver sees a flag and uses the memory in place. One thread at a
// time, but arrivals may be let go of by any. Must not outlive its device and channel, which stay
// where they are.
class StaticReceiver {
 public:
  // kFailedPrecondition for a shape with unknown dimensions.
  static Result<StaticReceiver> open(fabric::Device& device, fabric::Channel& channel,
                                     const tensor::Spec& spec, ReceiverOptions options = {});
  StaticReceiver(StaticReceiver&&) noexcept;
  StaticReceiver& operator=(StaticReceiver&&) noexcept;
  ~StaticReceiver();

  // For the sender: plain data. It is good for one StaticSender.
  const Ticket& ticket() const;

  // Whether receive() would return at once. Never blocks.
  Result<bool> ready();
  // Whether ready() might say more than last time: a plain look, for the condition of a
  // Device::wait_until().
  bool may_be_ready() const;
  // The next tensor. kDeadlineExceeded if none comes, kUnavailable if the sender is gone, kDataLoss
  // if it broke the protocol: then the edge is opened anew, with a new ticket.
  Result<Arrival> receive(Deadline deadline, fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  EdgeStats stats() const;

 private:
  struct Core;
  explicit StaticReceiver(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// The sending end. One thread at a time. Must not outlive its device and channel, which stay where
// they are.
class StaticSender {
 public:
  // kInvalidArgument unless the ticket is for tensors of this type and shape; kFailedPrecondition
  // for a ticket of another device, or of an earlier run of the peer.
  static Result<StaticSender> open(fabric::Device& device, fabric::Channel& channel,
                                   const Ticket& ticket, const tensor::Spec& spec,
                                   SenderOptions options = {});
  StaticSender(StaticSender&&) noexcept;
  StaticSender& operator=(StaticSender&&) noexcept;
  // Waits for what is still being written.
  ~StaticSender();

  // Where the next tensor is best produced: the receiver's slot itself where the path maps it and
  // it is free, else registered memory. The same until send(); what it holds is left over.
  Result<tensor::Tensor> output();
  bool output_in_place() const;
  // Whether a slot is free: send() would not wait. Never blocks.
  Result<bool> ready();
  // Sends what output() gave, or any tensor of the edge's type and shape. Returns when the memory
  // may be used again; the receiver may not have seen the tensor yet. kDeadlineExceeded names a
  // tensor that the receiver does not let go of: nothing was sent, and send() may be called again.
  // kAborted: the deadline came while the bytes were on their way. After this and any other failure
  // the edge is opened anew.
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
  explicit StaticSender(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::transfer
