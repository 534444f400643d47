#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/base/inline_function.h"
#include "ferry/graph/partition.h"

namespace ferry::runtime {

// What the ends of crossings did, counted.
struct CrossingStats {
  std::uint64_t tensors = 0;         // sent
  std::uint64_t bytes = 0;           // of them
  std::uint64_t in_place = 0;        // of these tensors: the receiver uses them where they are made
  std::uint64_t copies = 0;          // of tensors, made by either end in its own memory
  std::uint64_t endpoint_bytes = 0;  // that gRPC has sent over endpoints of ours (grpc+ferry)
  // Of the tensors: sent from registered memory, where the operator had left them: neither copied
  // nor registered for it. Over gRPC: none.
  std::uint64_t registered = 0;
  // From the start of each send, or of a receiver's read of a large tensor, until the task saw its
  // end, added up. Over gRPC: 0.
  std::uint64_t transfer_ns = 0;
  CrossingStats& operator+=(const CrossingStats& other);
  CrossingStats& operator-=(const CrossingStats& earlier);
};

// The sending end of a crossing. One thread at a time.
class SendEnd {
 public:
  virtual ~SendEnd() = default;
  // Memory in which the next tensor is best produced, or none if it does not matter.
  virtual Result<std::optional<tensor::Tensor>> output(const tensor::Spec& spec) = 0;
  // Sends a tensor, which stays as it is until finished(): false if the receiver is not ready for
  // it, and nothing was done.
  virtual Result<bool> start(const tensor::Tensor& tensor, std::uint64_t step) = 0;
  virtual Result<bool> finished() = 0;
  // Whether start() or finished() might say more than last time: a plain look.
  virtual bool may_be_ready() const = 0;
  virtual CrossingStats stats() const = 0;
};

// The receiving end. One thread at a time.
class ReceiveEnd {
 public:
  virtual ~ReceiveEnd() = default;
  // The step begins: whoever must ask for its tensor asks.
  virtual Status expect(std::uint64_t step) = 0;
  // Whether the step's tensor is there. Never blocks.
  virtual Result<bool> ready(std::uint64_t step) = 0;
  virtual bool may_be_ready(std::uint64_t step) const = 0;
  // The tensor, once ready() says true. Its memory may be seen by others: nobody writes to it. Its
  // share gives it back, from any thread, before the end is closed.
  virtual Result<tensor::Tensor> take() = 0;
  // Copies of tensors that this end made in its own memory, and tensors that it uses in the
  // sender's. What was sent is counted by the sender.
  virtual CrossingStats stats() const = 0;
};

// A variable whose versions other tasks of the host read in place. One thread at a time.
class SharedVariable {
 public:
  virtual ~SharedVariable() = default;
  // A version that nobody reads, to be written; the same until publish().
  virtual Result<tensor::Tensor> output(Deadline deadline) = 0;
  // Readers of the next step get it.
  virtual Status publish() = 0;
};

// How tensors of one task get to others and back: what a transport of the runtime implements.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // Opens the ends of the task's crossings, with all its loops; the other tasks do the same. Once.
  virtual Status open(const graph::Partition& partition, const std::string& task,
                      Deadline deadline) = 0;
  // The ends of the crossings, by number; null for those of others.
  virtual SendEnd* send_end(std::uint32_t crossing) = 0;
  virtual ReceiveEnd* receive_end(std::uint32_t crossing) = 0;
  // Null for a variable that nobody reads in place.
  virtual SharedVariable* shared_variable(const std::string& name) = 0;
  // Waits until `ready`, a plain look at ends, says true; false if the deadline passes first.
  virtual bool wait_until(InlineFunction<bool()> ready, Deadline deadline) = 0;
  // After the last step: waits until all tasks that this one has to do with are there too. Until
  // then they may still touch its memory.
  virtual Status leave(Deadline deadline) = 0;
  // Makes wait_until() look once more.
  virtual void wake() = 0;
  // Of all ends together.
  virtual CrossingStats stats() const = 0;
};

}  // namespace ferry::runtime
