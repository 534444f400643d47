#include <algorithm>

#include "ferry/ps/worker/tensor_table_internal.h"

namespace ferry::ps {

std::size_t TensorLink::readable_copy(std::uint32_t run) const {
  std::size_t index = run;
  const auto runs = info.runs.size();
  while (!parts[index].link->is_readable() && index + runs < parts.size()) index += runs;
  return index;
}

std::uint32_t TensorLink::run_at(std::uint64_t offset) const {
  const auto after =
      std::upper_bound(info.runs.begin(), info.runs.end(), offset,
                       [](std::uint64_t at, const Run& run) { return at < run.offset; });
  return static_cast<std::uint32_t>(after - info.runs.begin() - 1);
}

bool TensorLink::is_mapped_anywhere() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const PartLink& part) { return part.mapped != nullptr; });
}

Result<TensorLink*> TensorTable::at(Parameter parameter) {
  if (parameter >= tensors_.size())
    return fail(Code::kNotFound, "there is no parameter {}; init() and find() give their numbers",
                parameter);
  return &tensors_[parameter];
}

std::optional<Parameter> TensorTable::find(std::string_view name) const {
  const auto known = names_.find(name);
  return known == names_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<Parameter> TensorTable::find_id(std::uint32_t id) const {
  for (std::size_t each = 0; each < tensors_.size(); ++each)
    if (tensors_[each].info.id == id) return static_cast<Parameter>(each);
  return std::nullopt;
}

Result<Parameter> TensorTable::open(TensorInfo info, Deadline deadline) {
  if (const auto known = find(info.name)) return *known;
  auto tensor = FERRY_TRY(link_parts(std::move(info)));
  for (std::uint32_t server = 0; server < members_.servers(); ++server)
    FERRY_TRY(open_parts(tensor, server, deadline));
  const auto parameter = static_cast<Parameter>(tensors_.size());
  names_.emplace(tensor.info.name, parameter);
  tensors_.push_back(std::move(tensor));
  return parameter;
}

Result<TensorLink> TensorTable::link_parts(TensorInfo info) {
  TensorLink tensor;
  tensor.bytes = FERRY_TRY(info.spec.bytes());
  tensor.row_bytes = tensor::size_of(info.spec.type);
  for (std::size_t dim = 1; dim < info.spec.shape.rank(); ++dim)
    tensor.row_bytes *= static_cast<std::uint64_t>(info.spec.shape.dim(dim));
  tensor.info = std::move(info);
  const auto runs = tensor.info.runs.size();
  tensor.parts.resize(runs * context_.job.replicas);
  for (std::size_t index = 0; index < tensor.parts.size(); ++index) {
    auto& part = tensor.parts[index];
    part.run = tensor.info.runs[index % runs];
    if (part.run.shard >= members_.shards())
      return fail(Code::kDataLoss, "the scheduler speaks of shard {}; there are {}", part.run.shard,
                  members_.shards());
    part.link = &members_.link_of(part.run.shard, static_cast<std::uint32_t>(index / runs));
    part.layout = {part.run.bytes, tensor.info.block_bytes};
  }
  return tensor;
}

Status TensorTable::open_parts(TensorLink& tensor, std::uint32_t server, Deadline deadline) {
  Bytes wish;
  bootstrap::Encoder(wish).u32(context_.rank).u32(tensor.info.id);
  const auto answer = FERRY_TRY(members_.ask(server, Ask::kOpen, wish, deadline));
  if (!answer) return {};
  auto& channel = members_.channel(server);
  bootstrap::Decoder in(*answer);
  const auto runs = tensor.info.runs.size();
  while (in.remaining() > 0 && in.ok()) {
    const auto place = FERRY_TRY(get_part_place(in));
    std::size_t index = place.run;
    while (index < tensor.parts.size() && tensor.parts[index].link->server() != server)
      index += runs;
    if (place.run >= runs || index >= tensor.parts.size())
      return fail(Code::kDataLoss, "server {} speaks of a part that there is not", server);
    auto& part = tensor.parts[index];
    part.number = place.part;
    part.table = place.table;
    part.nonce = place.nonce;
    const auto table = channel.map(place.table);
    const auto seats = channel.map(place.seats);
    if (!table || !seats || table->size() < part.layout.total()) continue;
    part.mapped = table->data();
    part.seats = seats->data();
  }
  return in.finish("a server's parts");
}

Status TensorTable::register_with(std::uint32_t server, Deadline deadline) {
  for (auto& tensor : tensors_) {
    for (auto& part : tensor.parts) {
      if (part.link->server() != server) continue;
      part.mapped = nullptr;
      part.leased = false;
    }
    FERRY_TRY(open_parts(tensor, server, deadline));
    if (tensor.landing) FERRY_TRY(offer_landing(tensor, server, deadline));
  }
  return {};
}

Status TensorTable::make_landing(TensorLink& tensor, Deadline deadline) {
  tensor.landing = FERRY_TRY(context_.data->allocate(tensor.bytes));
  for (std::uint32_t server = 0; server < members_.servers(); ++server) {
    auto offered = offer_landing(tensor, server, deadline);
    if (offered) continue;
    tensor.landing = {};
    return offered;
  }
  return {};
}

Status TensorTable::offer_landing(const TensorLink& tensor, std::uint32_t server,
                                  Deadline deadline) {
  if (members_.is_removed(server)) return {};
  Bytes wish;
  bootstrap::Encoder out(wish);
  out.u32(context_.rank).u32(tensor.info.id);
  put(out, FERRY_TRY(context_.data->grant(tensor.landing, fabric::Rights::kReadWrite,
                                          members_.channel(server))));
  FERRY_TRY(members_.ask(server, Ask::kLanding, wish, deadline));
  return {};
}

}  // namespace ferry::ps
