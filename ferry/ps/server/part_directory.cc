#include "ferry/ps/server/part_directory_internal.h"
#include "ferry/ps/server/snapshot_internal.h"

namespace ferry::ps {

Result<std::vector<PartDirectory::PartAt>> PartDirectory::find(std::uint32_t id) const {
  const auto found = tensors_.find(id);
  if (found == tensors_.end())
    return fail(Code::kNotFound, "server {} has no tensor {}", shards_.role().index, id);
  return found->second.parts;
}

Result<const UpdateFunction*> PartDirectory::function_of(const TensorInfo& info) const {
  if (info.update.kind != UpdateKind::kFunction) return nullptr;
  const auto found = functions_.find(info.update.function);
  if (found == functions_.end())
    return fail(Code::kNotFound,
                "server {} has no update function '{}' for tensor '{}'; name it in "
                "ServerOptions::functions",
                shards_.role().index, info.update.function, info.name);
  return &found->second;
}

Status PartDirectory::create_part(const TensorInfo& info, std::uint32_t run,
                                  std::vector<PartAt>& parts) {
  const auto* function = FERRY_TRY(function_of(info));
  auto made = Part::make(device_, info, run, shards_.role().job, function);
  if (!made)
    return fail(Code::kResourceExhausted,
                "server {} has no memory for {} bytes of tensor '{}' (three versions): {}",
                shards_.role().index, info.runs[run].bytes, info.name, made.error().message());
  PartAt at{.shard = *shards_.local(info.runs[run].shard),
            .run = run,
            .offset = info.runs[run].offset,
            .part = made->get()};
  at.table = FERRY_TRY(device_.grant((*made)->table(), fabric::Rights::kRead));
  at.seats = FERRY_TRY(device_.grant((*made)->seats(), fabric::Rights::kReadWrite));
  shards_.run(at.shard, [&](ShardCore& shard) { at.number = shard.add_part(std::move(*made)); });
  parts.push_back(at);
  return {};
}

void PartDirectory::remove(const std::vector<PartAt>& parts) {
  for (const auto& at : parts)
    shards_.run(at.shard, [&](ShardCore& shard) { shard.parts().remove(at.number); });
}

Status PartDirectory::create(const TensorInfo& info) {
  auto& entry = tensors_[info.id];
  for (std::uint32_t run = 0; run < info.runs.size(); ++run) {
    if (!shards_.local(info.runs[run].shard)) continue;
    auto made = create_part(info, run, entry.parts);
    if (made) continue;
    remove(entry.parts);
    tensors_.erase(info.id);
    return made;
  }
  entry.info = info;
  size_ = tensors_.size();
  return {};
}

void PartDirectory::drop(std::uint32_t id) {
  if (const auto found = tensors_.find(id); found != tensors_.end()) {
    remove(found->second.parts);
    tensors_.erase(found);
  }
  size_ = tensors_.size();
}

void PartDirectory::drop_all_but(const std::set<std::uint32_t>& known) {
  std::vector<std::uint32_t> others;
  for (const auto& [id, entry] : tensors_)
    if (!known.contains(id)) others.push_back(id);
  for (const auto id : others) drop(id);
}

void PartDirectory::clear_seats(std::uint32_t rank) const {
  for (const auto& [id, entry] : tensors_)
    for (const auto& at : entry.parts) at.part->clear_seat(rank);
}

Result<std::uint64_t> PartDirectory::common_clock() {
  std::optional<std::uint64_t> clock;
  bool between_steps = true;
  shards_.run_all([&](ShardCore& shard) {
    const auto own = shard.clock().now();
    if (shard.is_step_begun() || clock.value_or(own) != own) between_steps = false;
    clock = own;
  });
  if (!between_steps)
    return fail(Code::kFailedPrecondition,
                "server {} is in the middle of a step; take snapshots while all workers wait at "
                "a barrier",
                shards_.role().index);
  return *clock;
}

// Shards stop one after the other while their parts are copied; the file is written afterwards.
Result<std::uint64_t> PartDirectory::save(const std::string& path, std::uint32_t file,
                                          bool second) {
  const auto clock = FERRY_TRY(common_clock());
  std::vector<std::unique_ptr<PartImage>> images;  // the tensors are views of these
  storage::Checkpoint checkpoint;
  for (auto& [id, entry] : tensors_) {
    for (auto& at : entry.parts) {
      if (at.shard >= shards_.role().shards && !second) continue;
      auto image = std::make_unique<PartImage>();
      shards_.run(at.shard, [&](ShardCore&) { *image = at.part->image(); });
      FERRY_TRY(Snapshots::put_image(checkpoint.tensors, entry.info, at.offset, *image));
      images.push_back(std::move(image));
    }
  }
  checkpoint.step = clock;
  FERRY_TRY(storage::save_checkpoint(Snapshots::file_of(path, file), checkpoint));
  return clock;
}

Status PartDirectory::restore(const std::string& path, std::uint32_t files,
                              const TensorInfo& info) {
  FERRY_TRY(create(info));
  auto& parts = tensors_.at(info.id).parts;
  std::vector<PartImage> images;
  images.reserve(parts.size());
  for (auto& at : parts) images.push_back(at.part->empty_image());
  for (std::uint32_t file = 0; file < files; ++file) {
    const auto checkpoint = FERRY_TRY(storage::load_checkpoint(Snapshots::file_of(path, file)));
    for (std::size_t each = 0; each < parts.size(); ++each)
      FERRY_TRY(
          Snapshots::add_to(images[each], checkpoint.tensors, info, info.runs[parts[each].run]));
  }
  for (std::size_t each = 0; each < parts.size(); ++each)
    shards_.run(parts[each].shard,
                [&](ShardCore&) { parts[each].part->restore(std::move(images[each])); });
  return {};
}

}  // namespace ferry::ps
