#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/ps/parameter.h"
#include "ferry/ps/worker/membership_internal.h"
#include "ferry/tensor/tensor.h"

namespace ferry::ps {

// What a worker knows of a tensor's part, at one server.
struct PartLink {
  ShardLink* link = nullptr;
  std::uint32_t number = 0;
  Run run;
  PartLayout layout;
  fabric::RemoteRegion table;
  const std::byte* mapped = nullptr;  // the table; null: it is read
  std::byte* seats = nullptr;
  std::uint16_t nonce = 0;
  bool leased = false;
  std::uint64_t last_entry = 0;  // of the last push, in the link's ring
};

struct TensorLink {
  // The index of the copy that is read: the first, unless its server is removed or catches up.
  std::size_t readable_copy(std::uint32_t run) const;
  // The run in which a byte of the tensor is.
  std::uint32_t run_at(std::uint64_t offset) const;
  bool is_mapped_anywhere() const;

  TensorInfo info;
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;
  std::vector<PartLink> parts;                  // by offset; then second copies, the same way
  std::uint64_t pushed_in = 0;                  // the last step in which it was pushed
  std::shared_ptr<std::vector<std::byte>> own;  // for pulls that are not in place
  fabric::Region landing;                       // where servers send what was asked to come back
  Bytes copy;                                   // of a gradient in the program's own memory (kSync)
  tensor::Tensor copy_in_place;                 // of one in memory from allocate(); servers read it
  std::optional<std::size_t> offered;  // the memory that gradients from elsewhere are copied to
  fabric::Region sum;                  // of this host
};

// The tensors that this worker has opened, by the numbers that it has given them. Used by the
// thread that calls the worker; a second one may look tensors up (kAsync).
//
// Between calls: every server that is part of the job has been asked for its parts of every tensor,
// and knows the tensor's landing if there is one.
class TensorTable {
 public:
  TensorTable(WorkerContext& context, Membership& members) : context_(context), members_(members) {}

  // The same number again if it is open.
  Result<Parameter> open(TensorInfo info, Deadline deadline);
  std::optional<Parameter> find(std::string_view name) const;
  std::optional<Parameter> find_id(std::uint32_t id) const;
  Result<TensorLink*> at(Parameter parameter);
  TensorLink& operator[](Parameter parameter) { return tensors_[parameter]; }

  // Memory that all servers may write this tensor's values to.
  Status make_landing(TensorLink& tensor, Deadline deadline);
  // Opens all tensors at a server that has come.
  Status register_with(std::uint32_t server, Deadline deadline);

 private:
  // Makes the tensor's entry of what the scheduler says of it: each part is linked to its shard,
  // and none is open yet.
  Result<TensorLink> link_parts(TensorInfo info);
  // Asks a server where the parts are that it has of the tensor, and maps them where the path does.
  Status open_parts(TensorLink& tensor, std::uint32_t server, Deadline deadline);
  // Lets a server write values to the tensor's landing, and tells it so.
  Status offer_landing(const TensorLink& tensor, std::uint32_t server, Deadline deadline);

  WorkerContext& context_;
  Membership& members_;
  std::deque<TensorLink> tensors_;
  std::map<std::string, Parameter, std::less<>> names_;
};

}  // namespace ferry::ps
