#pragma once

#include <functional>
#include <span>

#include "ferry/ps/pulled.h"
#include "ferry/ps/worker/tensor_table_internal.h"

namespace ferry::ps {

// Weights: in place under a lease, copied under one, or read where the path maps nothing. Used by
// the thread that calls the worker; in kAsync pull_to() and version() may run on another thread
// than pushes.
//
// Between calls: this worker's seat at a part is taken only while a `Pulled` holds a lease there,
// which `PartLink::leased` says.
class Puller {
 public:
  // `await_fresh` waits until weights are as new as the job's consistency asks for.
  using AwaitFresh = std::function<Status(Deadline deadline)>;
  Puller(WorkerContext& context, Membership& members, TensorTable& tensors, AwaitFresh await_fresh)
      : context_(context),
        members_(members),
        tensors_(tensors),
        await_fresh_(std::move(await_fresh)) {}

  Result<Pulled> pull(Parameter parameter, Deadline deadline);
  // What servers have sent to the tensor's landing on their own.
  Pulled take_landed(Parameter parameter);
  Status pull_to(Parameter parameter, std::span<std::byte> out, Deadline deadline);
  Status pull_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                   std::span<std::byte> out, Deadline deadline);
  Result<std::uint64_t> version(Parameter parameter, Deadline deadline);
  // Ends the leases of what was pulled.
  Status release(Parameter parameter, std::span<const Pulled::Lease> leases);

 private:
  // A row of a pull.
  struct RowAt {
    std::uint64_t offset = 0;  // within the part
    std::span<std::byte> out;
  };
  // kUnavailable: a server that alone has a part of the tensor is gone. Memory that is mapped could
  // still be read, and would show what the server published last for ever.
  Status check_servers_of(const TensorLink& tensor) const;
  // Adds the views of one run to what is pulled: in place if a lease can be had, else of a copy.
  Status pull_part(TensorLink& from, std::uint32_t run, Pulled& pulled, Deadline deadline);

  // Takes a lease of the part, and adds views of its blocks in the server's memory. False: none can
  // be had for now, and nothing was added.
  Result<bool> lease(PartLink& part, Pulled& pulled) const;
  // Whether the newest plane of the block has been written; `current` is what its head says. False:
  // the block is being written in that very plane.
  bool is_stable(const PartLink& part, std::uint32_t block, std::uint64_t& current) const;
  // Whether the server has a plane to write: as long as all who hold one hold the same.
  bool leaves_room(const PartLink& part, std::uint64_t epoch) const;
  // This worker's seat at the part: `which` is the lease in it, kHeld or kCopying.
  std::byte* seat(const PartLink& part, std::size_t which) const;
  // Stores a lease of this epoch into the seat, before anything that is read under it.
  Pulled::Lease take_lease(const PartLink& part, std::size_t which, std::uint64_t epoch) const;
  // kUnavailable: the server has taken the lease away meanwhile, and may have overwritten what was
  // read under it.
  Status end_lease(const PartLink& part, const Pulled::Lease& lease) const;

  // These say false when there are no values yet. fetch() copies under a lease where the part is
  // mapped, and reads it over the channel where it is not; those for rows do the same with some
  // rows.
  Result<bool> fetch(PartLink& part, std::span<std::byte> out, Deadline deadline);
  Result<bool> copy(const PartLink& part, std::span<std::byte> out) const;
  Result<bool> read(const PartLink& part, std::span<std::byte> out, Deadline deadline);
  Result<bool> fetch_rows(const PartLink& part, std::span<const RowAt> rows, Deadline deadline);
  Result<bool> copy_rows(const PartLink& part, std::span<const RowAt> rows) const;
  Result<bool> read_rows(const PartLink& part, std::span<const RowAt> rows, Deadline deadline);
  // The version of the part's first block, read over the channel.
  Result<std::uint64_t> read_version(const PartLink& part, Deadline deadline);
  // Calls `get` with the copy of the run that is read, or with the next one if that server is gone,
  // until it says true: something is published there.
  template <class Get>
  Status when_published(TensorLink& from, std::uint32_t run, Deadline deadline, Get get);
  // The values of a run, once they are published.
  Status fetch_when_published(TensorLink& from, std::uint32_t run, std::span<std::byte> out,
                              Deadline deadline);

  WorkerContext& context_;
  Membership& members_;
  TensorTable& tensors_;
  const AwaitFresh await_fresh_;
};

}  // namespace ferry::ps
