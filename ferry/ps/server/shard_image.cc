#include <algorithm>

#include "ferry/ps/server/shard_internal.h"

// Shards that give, and get, a new copy: see the design note.

namespace ferry::ps {

void put(bootstrap::Encoder& out, const ShardImage& image) {
  out.u64(image.clock).u32(image.attempt).u32(image.later.attempt).u64(image.later.step);
  for (const auto& member : image.members)
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
  image.clock = in.u64();
  image.attempt = in.u32();
  image.later.attempt = in.u32();
  image.later.step = in.u64();
  image.members.resize(job.workers);
  for (auto& member : image.members) {
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

Part* Shard::part_of(std::uint32_t tensor) {
  for (auto& part : parts_)
    if (part != nullptr && part->tensor() == tensor) return part.get();
  return nullptr;
}

void Shard::cut(std::uint64_t step) {
  if (step == cut_) return;
  cut_ = step;
  image_.reset();
}

// Called when a step was applied: nothing of the next one was taken yet.
void Shard::take_image() {
  auto image = std::make_shared<ShardImage>();
  image->clock = clock_;
  image->attempt = attempt_;
  image->later = later_;
  image->members = members_;
  for (const auto& part : parts_)
    if (part != nullptr && part->has_values())
      image->parts.push_back({part->tensor(), part->image()});
  image_ = std::move(image);
}

void Shard::install(const ShardImage& image, const std::function<void()>& restore) {
  clock_ = image.clock;
  attempt_ = image.attempt;
  later_ = image.later;
  members_ = image.members;
  restore();
  for (const auto& part : parts_)
    if (part != nullptr && part->has_values()) part->came_by_image(clock_);
  waiting_ = false;
  for (auto& link : links_)
    if (link != nullptr && !link->frozen) greet(*link);
  for (const auto& verdict : std::exchange(verdicts_, {}))
    settle(verdict.rank, verdict.through, verdict.anew);
  go_on();
}

}  // namespace ferry::ps
