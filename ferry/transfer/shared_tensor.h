#pragma once

#include <memory>

#include "ferry/transfer/edge.h"

namespace ferry::transfer {

struct SharedOptions {
  // The newest, one to write, and those that slow readers still use: with n versions, readers may
  // use n - 2 different ones in place at a time; who wants one more gets a copy.
  std::uint32_t versions = 3;
  std::uint32_t readers = 64;  // at a time
};

// A tensor of one shape that one process writes again and again and several processes of its host
// read in place: the weights of a model, say. A version that is in use is never written. One thread
// at a time. Must not outlive its device and the channels of its readers, which stay where they
// are.
class SharedWriter {
 public:
  static Result<SharedWriter> open(fabric::Device& device, const tensor::Spec& spec,
                                   SharedOptions options = {});
  SharedWriter(SharedWriter&&) noexcept;
  SharedWriter& operator=(SharedWriter&&) noexcept;
  ~SharedWriter();

  // A ticket for the reader at the end of the channel. kUnimplemented where the path does not map
  // memory, kResourceExhausted when every seat is taken. `spins`: that reader never sleeps.
  Result<Ticket> admit(fabric::Channel& reader, bool spins = false);

  // A version that nobody uses, to be written: the same until publish(). Waits for readers that are
  // copying or hold too much.
  Result<tensor::Tensor> output(Deadline deadline);
  // What output() gave is the newest version from now on: its number, from 1.
  Result<std::uint64_t> publish();

 private:
  struct Core;
  explicit SharedWriter(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// One reader. One thread at a time, but what it got may be let go of by any. Must not outlive its
// device and channel, which stay where they are.
class SharedReader {
 public:
  // kInvalidArgument unless the ticket is for tensors of this type and shape.
  static Result<SharedReader> open(fabric::Device& device, fabric::Channel& channel,
                                   const Ticket& ticket, const tensor::Spec& spec);
  SharedReader(SharedReader&&) noexcept;
  SharedReader& operator=(SharedReader&&) noexcept;
  ~SharedReader();

  // The newest version, in place; a copy of it if this reader has one in use already, or all
  // readers use too many. Waits for one that is at least number `least`. kUnavailable: the writer
  // is gone, or has given this reader up; if release() of what was read in place says so, what was
  // read must not be trusted.
  Result<Arrival> read(std::uint64_t least, Deadline deadline,
                       fabric::WaitMode mode = fabric::WaitMode::kAdaptive);
  // Whether there is a version of that number or later. Never blocks.
  bool ready(std::uint64_t least) const;
  EdgeStats stats() const;

 private:
  struct Core;
  explicit SharedReader(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::transfer
