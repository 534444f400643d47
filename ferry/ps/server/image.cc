#include "ferry/ps/server/image_internal.h"

namespace ferry::ps {

void put(bootstrap::Encoder& out, const ShardImage& image) {
  const auto& step = image.step;
  out.u64(step.clock).u32(step.attempt).u32(step.later.attempt).u64(step.later.step);
  for (const auto& member : step.members)
    out.u64(member.ended).u64(member.since).u64(member.through).u64(member.former);
  out.u32(static_cast<std::uint32_t>(image.parts.size()));
  for (const auto& part : image.parts) {
    out.u32(part.tensor).u64(part.image.time);
    out.u32(static_cast<std::uint32_t>(part.image.updates.size()));
    for (const auto count : part.image.updates) out.u64(count);
  }
}

Result<ShardImage> get_shard_image(bootstrap::Decoder& in, const JobOptions& job) {
  ShardImage image;
  auto& step = image.step;
  step.clock = in.u64();
  step.attempt = in.u32();
  step.later.attempt = in.u32();
  step.later.step = in.u64();
  step.members.resize(job.workers);
  for (auto& member : step.members) {
    member.ended = in.u64();
    member.since = in.u64();
    member.through = in.u64();
    member.former = in.u64();
  }
  const auto parts = in.u32();
  for (std::uint32_t each = 0; each < parts && in.ok(); ++each) {
    auto& part = image.parts.emplace_back();
    part.tensor = in.u32();
    part.image.time = in.u64();
    const auto blocks = in.u32();
    for (std::uint32_t block = 0; block < blocks && in.ok(); ++block)
      part.image.updates.push_back(in.u64());
  }
  FERRY_TRY(in.finish("what a shard is made of"));
  return image;
}

std::span<std::byte> section_of(PartImage& image, std::uint32_t section) {
  switch (section) {
    case 0:
      return image.values;
    case 1:
      return std::as_writable_bytes(std::span(image.master));
    default:
      return std::as_writable_bytes(std::span(image.states[section - 2]));
  }
}

}  // namespace ferry::ps
