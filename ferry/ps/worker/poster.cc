// Data path.
#include <algorithm>

#include "ferry/ps/worker/poster_internal.h"

// From a gradient to entries in rings.

namespace ferry::ps {
namespace {

bool is_in_place(const Memory* memory, const PartLink& part) {
  return memory != nullptr && memory->at[part.link->server()].has_value();
}

}  // namespace

Result<WaitOutcome> Poster::make_room(ShardLink& link, bool slot, Deadline deadline) {
  if (link.has_room(slot)) return WaitOutcome::kReady;
  InlineFunction<bool()> ready = [&link, slot] { return link.has_room(slot); };
  return waiter_.wait(ready, Newcomers::kLater, deadline, "a server to take what was pushed");
}

void Poster::post_slot(ShardLink& link, const Entry& entry, std::span<const std::byte> payload) {
  if (!link.post_slot(entry, payload)) return;
  ++context_.stats.pushed_blocks;
  context_.stats.pushed_bytes += payload.size();
}

Result<WaitOutcome> Poster::post_dense(DensePost& post, Deadline deadline) {
  auto& to = tensors_[post.parameter];
  const auto* memory = post.operation == Operation::kPush ? memories_.find(post.values) : nullptr;
  if (memory != nullptr &&
      FERRY_TRY(post_in_place(post, *memory, deadline)) == WaitOutcome::kRestart)
    return WaitOutcome::kRestart;
  std::uint32_t most = 0;
  for (const auto& part : to.parts)
    if (!is_in_place(memory, part)) most = std::max(most, part.layout.blocks());
  // Blocks of all parts in turn, so that shards work at the same time.
  for (; post.block < most; ++post.block, post.part = 0) {
    for (; post.part < to.parts.size(); ++post.part) {
      auto& part = to.parts[post.part];
      if (post.block >= part.layout.blocks() || is_in_place(memory, part)) continue;
      if (FERRY_TRY(make_room(*part.link, true, deadline)) == WaitOutcome::kRestart)
        return WaitOutcome::kRestart;
      post_block(post, part);
    }
  }
  return WaitOutcome::kReady;
}

Result<WaitOutcome> Poster::post_in_place(DensePost& post, const Memory& memory,
                                          Deadline deadline) {
  auto& parts = tensors_[post.parameter].parts;
  for (; post.in_place_done < parts.size(); ++post.in_place_done) {
    auto& part = parts[post.in_place_done];
    if (!is_in_place(&memory, part)) continue;
    if (FERRY_TRY(make_room(*part.link, false, deadline)) == WaitOutcome::kRestart)
      return WaitOutcome::kRestart;
    const auto offset = static_cast<std::uint64_t>(post.values.data() - memory.region.data());
    part.link->post({.operation = post.operation,
                     .part = part.number,
                     .blocks = part.layout.blocks(),
                     .slot = Entry::kInPlace,
                     .attempt = log_.attempt(),
                     .offset = offset + part.run.offset,
                     .bytes = part.run.bytes,
                     .step = post.step,
                     .count = *memory.at[part.link->server()]});
    ++context_.stats.pushed_in_place;
    part.last_entry = part.link->posted();
  }
  return WaitOutcome::kReady;
}

void Poster::post_block(const DensePost& post, PartLink& part) {
  const auto& to = tensors_[post.parameter];
  const auto run = static_cast<std::uint32_t>(post.part % to.info.runs.size());
  const bool back = post.back && post.part == to.readable_copy(run);
  const Entry entry{.operation = post.operation,
                    .part = part.number,
                    .first = post.block,
                    .blocks = 1,
                    .attempt = log_.attempt(),
                    .offset = back ? 1U : 0U,
                    .step = post.step};
  post_slot(*part.link, entry,
            post.values.subspan(part.run.offset + post.block * part.layout.block_bytes,
                                part.layout.bytes_of(post.block)));
  part.last_entry = part.link->posted();
}

Result<WaitOutcome> Poster::post_rows(const PushRecord& rows, std::uint64_t step,
                                      Deadline deadline) {
  const auto& to = tensors_[rows.parameter];
  for (std::size_t index = rows.part; index < to.parts.size(); index += to.info.runs.size()) {
    const auto& part = to.parts[index];
    if (FERRY_TRY(make_room(*part.link, true, deadline)) == WaitOutcome::kRestart)
      return WaitOutcome::kRestart;
    const Entry entry{.operation = Operation::kRows,
                      .part = part.number,
                      .attempt = log_.attempt(),
                      .step = step,
                      .count = rows.count};
    post_slot(*part.link, entry, *rows.rows);
  }
  return WaitOutcome::kReady;
}

Result<WaitOutcome> Poster::post_record(const PushRecord& push, std::uint64_t step,
                                        Deadline deadline) {
  if (push.rows != nullptr) return post_rows(push, step, deadline);
  DensePost post{
      .parameter = push.parameter, .values = push.gradient, .back = push.back, .step = step};
  return post_dense(post, deadline);
}

Result<WaitOutcome> Poster::prepare_end(std::uint64_t step, Deadline deadline) {
  InlineFunction<bool()> landed = [this, step] {
    return members_.everywhere_in(step, [](const ShardLink& link) { return link.has_taken_all(); });
  };
  if (context_.is_sync() && members_.links().size() > 1) {
    const auto outcome =
        FERRY_TRY(waiter_.wait(landed, Newcomers::kLater, deadline, "what was pushed to land"));
    if (outcome == WaitOutcome::kRestart) return outcome;
  }
  for (auto& link : members_.links())
    if (FERRY_TRY(make_room(link, false, deadline)) == WaitOutcome::kRestart)
      return WaitOutcome::kRestart;
  return WaitOutcome::kReady;
}

void Poster::post_end(std::uint64_t step) {
  for (auto& link : members_.links())
    link.post({.operation = Operation::kEnd, .attempt = log_.attempt(), .step = step});
}

}  // namespace ferry::ps
