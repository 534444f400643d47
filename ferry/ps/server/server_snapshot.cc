#include "ferry/ps/server/server_core_internal.h"
#include "ferry/ps/server/snapshot_internal.h"

// A server's part of a snapshot.

namespace ferry::ps {

// Shards stop one after the other while their parts are copied; the file is written afterwards.
Result<Bytes> Server::Core::save(bootstrap::Decoder& in) {
  const auto path = std::string(in.string(kMostPath));
  const auto file = in.u32();
  FERRY_TRY(in.finish("a snapshot to be saved"));
  std::vector<std::unique_ptr<PartImage>> images;  // the tensors are views of these
  storage::Checkpoint checkpoint;
  std::uint64_t clock = 0;
  for (auto& shard : shards_) {
    std::uint64_t own = 0;
    bool at_rest = false;
    shard->run([&] {
      own = shard->clock();
      at_rest = shard->at_rest();
    });
    if (!at_rest || (shard != shards_.front() && own != clock))
      return fail(Code::kFailedPrecondition,
                  "server {} is in the middle of a step; take snapshots while all workers wait at "
                  "a barrier",
                  index_);
    clock = own;
  }
  for (auto& [id, parts] : tensors_) {
    for (auto& at : parts) {
      // A second copy is saved where the first one is gone.
      if (at.shard >= options_.shards && !first_gone_) continue;
      auto image = std::make_unique<PartImage>();
      shards_[at.shard]->run([&] { *image = at.part->image(); });
      FERRY_TRY(Snapshots::put_image(checkpoint.tensors, infos_.at(id), at.offset, *image));
      images.push_back(std::move(image));
    }
  }
  checkpoint.step = clock;
  FERRY_TRY(storage::save_checkpoint(Snapshots::file_of(path, file), checkpoint));
  Bytes answer;
  bootstrap::Encoder(answer).u64(clock);
  return answer;
}

// Makes the tensor, and fills it from whatever files have a part of it.
Result<Bytes> Server::Core::restore(bootstrap::Decoder& in) {
  const auto path = std::string(in.string(kMostPath));
  const auto files = in.u32();
  const auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor to be restored"));
  FERRY_TRY(make(info));
  auto& parts = tensors_.at(info.id);
  std::vector<PartImage> images;
  for (auto& at : parts) images.push_back(at.part->empty_image());
  for (std::uint32_t file = 0; file < files; ++file) {
    const auto checkpoint = FERRY_TRY(storage::load_checkpoint(Snapshots::file_of(path, file)));
    for (std::size_t each = 0; each < parts.size(); ++each)
      FERRY_TRY(
          Snapshots::add_to(images[each], checkpoint.tensors, info, info.runs[parts[each].run]));
  }
  for (std::size_t each = 0; each < parts.size(); ++each) {
    auto& at = parts[each];
    shards_[at.shard]->run([&] { at.part->restore(std::move(images[each])); });
  }
  return Bytes();
}

}  // namespace ferry::ps
