#include "ferry/ps/worker/memory_table_internal.h"

namespace ferry::ps {

std::string MemoryTable::name_of(std::size_t index) { return fmt::format("ps.memory.{}", index); }

Result<tensor::Tensor> MemoryTable::allocate(const tensor::Spec& spec, Deadline deadline) {
  const auto bytes = FERRY_TRY(spec.bytes());
  Memory memory;
  memory.region = FERRY_TRY(context_.data->allocate(bytes));
  for (std::uint32_t server = 0; server < members_.servers(); ++server)
    memory.at.push_back(FERRY_TRY(grant(server, memory.region, deadline)));
  FERRY_TRY(publish(memory.region));
  auto tensor = FERRY_TRY(tensor::Tensor::over(spec, memory.region.bytes()));
  memories_.push_back(std::move(memory));
  return tensor;
}

Result<std::size_t> MemoryTable::allocate_for_neighbours(std::uint64_t bytes) {
  Memory memory;
  memory.region = FERRY_TRY(context_.data->allocate(bytes));
  memory.at.resize(members_.servers());
  FERRY_TRY(publish(memory.region));
  memories_.push_back(std::move(memory));
  return memories_.size() - 1;
}

Status MemoryTable::publish(const fabric::Region& region) {
  if (!published_) return {};
  const auto granted = FERRY_TRY(context_.data->grant(region, fabric::Rights::kRead));
  return context_.data->publish(name_of(memories_.size()), granted);
}

const Memory* MemoryTable::find(std::span<const std::byte> bytes) const {
  for (const auto& memory : memories_) {
    const auto all = memory.region.bytes();
    if (bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size())
      return &memory;
  }
  return nullptr;
}

Status MemoryTable::register_with(std::uint32_t server, Deadline deadline) {
  mapped_.resize(members_.servers());
  mapped_[server] = 0;
  for (auto& memory : memories_)
    memory.at[server] = FERRY_TRY(grant(server, memory.region, deadline));
  return {};
}

Result<std::optional<std::uint32_t>> MemoryTable::grant(std::uint32_t server,
                                                        const fabric::Region& region,
                                                        Deadline deadline) {
  if (members_.is_removed(server)) return std::optional<std::uint32_t>();
  Bytes wish;
  bootstrap::Encoder out(wish);
  out.u32(context_.rank);
  put(out,
      FERRY_TRY(context_.data->grant(region, fabric::Rights::kRead, members_.channel(server))));
  const auto answer = FERRY_TRY(members_.ask(server, Ask::kGrant, wish, deadline));
  if (!answer) return std::optional<std::uint32_t>();
  bootstrap::Decoder in(*answer);
  const bool mapped = in.u8() != 0;
  FERRY_TRY(in.finish("what a server says of memory"));
  mapped_.resize(members_.servers());
  return mapped ? std::optional(mapped_[server]++) : std::nullopt;
}

}  // namespace ferry::ps
