#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/ps/server/shard_copies_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kAskAgain{5};
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

}  // namespace

void ShardCopies::close() {
  stop_ = true;
  if (copier_.joinable()) copier_.join();
}

void ShardCopies::offer(const JobView& view) {
  const auto& role = shards_.role();
  const auto* newcomer = view.newcomer(view.coming);
  for (std::uint32_t local = 0; local < shards_.size(); ++local) {
    const auto partner =
        local < role.shards ? second_of(role.job, role.index) : first_of(role.job, role.index);
    const bool wanted = newcomer != nullptr && newcomer->server == partner;
    shards_.run(local, [&](ShardCore& shard) { shard.copy_after(wanted ? newcomer->since : 0); });
  }
}

Result<Bytes> ShardCopies::show(bootstrap::Decoder& in) {
  const auto local = shards_.local(in.u32());
  const auto tensor = in.u32();
  const auto section = in.u32();
  const auto offset = in.u64();
  FERRY_TRY(in.finish("a question for a copy of a shard"));
  if (!local || section >= kSections)
    return fail(Code::kInvalidArgument, "server {} has no such shard", shards_.role().index);
  std::shared_ptr<ShardImage> image;
  shards_.run(*local, [&](ShardCore& shard) { image = shard.image(); });
  if (image == nullptr) return fail(Code::kNotFound, "the step is not applied yet");
  Bytes answer;
  bootstrap::Encoder out(answer);
  if (tensor == 0) {
    put(out, *image);
    return answer;
  }
  for (auto& part : image->parts) {
    if (part.tensor != tensor) continue;
    const auto all = section_of(part.image, section);
    const auto begin = std::min<std::uint64_t>(offset, all.size());
    out.raw(all.subspan(begin, std::min<std::uint64_t>(kPiece, all.size() - begin)));
    return answer;
  }
  return fail(Code::kInvalidArgument, "shard {} has no tensor {}", *local, tensor);
}

Status ShardCopies::catch_up(const std::string& first, const std::string& second, Done done) {
  if (copier_.joinable())
    return fail(Code::kFailedPrecondition, "server {} was told already", shards_.role().index);
  copier_ = std::thread([this, first, second, done = std::move(done)] {
    auto copied = copy_all(first, second);
    if (!copied)
      logger().error("server {} got no copies: {}", shards_.role().index, copied.error().message());
    done(std::move(copied));
  });
  return {};
}

Status ShardCopies::copy_all(const std::string& first, const std::string& second) {
  const auto& role = shards_.role();
  FERRY_TRY(copy_shards(first, first_of(role.job, role.index) * role.shards, role.shards));
  return copy_shards(second, role.first_shard, 0);
}

Status ShardCopies::copy_shards(const std::string& from, std::uint32_t shard, std::uint32_t local) {
  const auto client = FERRY_TRY(RpcClient::connect(device_, from, Deadline::after(patience_)));
  for (std::uint32_t each = 0; each < shards_.role().shards; ++each)
    FERRY_TRY(copy_shard(*client, shard + each, local + each));
  return {};
}

Result<Bytes> ShardCopies::ask(RpcClient& from, std::uint32_t shard, std::uint32_t tensor,
                               std::uint32_t section, std::uint64_t offset) const {
  Bytes wish;
  bootstrap::Encoder(wish).u32(shard).u32(tensor).u32(section).u64(offset);
  return from.call(Ask::kImage, wish, Deadline::after(patience_));
}

Result<ShardImage> ShardCopies::ask_description(RpcClient& from, std::uint32_t shard) {
  auto answer = ask(from, shard, 0, 0, 0);
  while (!answer && answer.error().code() == Code::kNotFound) {
    if (stop_) return fail(Code::kCancelled, "server {} is being closed", shards_.role().index);
    std::this_thread::sleep_for(kAskAgain);
    answer = ask(from, shard, 0, 0, 0);
  }
  const auto bytes = FERRY_TRY(std::move(answer));
  bootstrap::Decoder in(bytes);
  return get_shard_image(in, shards_.role().job);
}

Status ShardCopies::copy_part(RpcClient& from, std::uint32_t shard,
                              ShardImage::PartAt& part) const {
  for (std::uint32_t section = 0; section < kSections; ++section) {
    const auto to = section_of(part.image, section);
    for (std::uint64_t at = 0; at < to.size();) {
      const auto piece = FERRY_TRY(ask(from, shard, part.tensor, section, at));
      if (piece.empty() || piece.size() > to.size() - at)
        return fail(Code::kDataLoss, "a copy of tensor {} has another size", part.tensor);
      std::copy(piece.begin(), piece.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
      at += piece.size();
    }
  }
  return {};
}

Status ShardCopies::copy_shard(RpcClient& from, std::uint32_t shard, std::uint32_t local) {
  auto image = FERRY_TRY(ask_description(from, shard));
  for (auto& part : image.parts) {
    PartImage sized;
    shards_.run(local, [&](ShardCore& core) {
      if (auto* own = core.parts().of_tensor(part.tensor)) sized = own->empty_image();
    });
    sized.time = part.image.time;
    sized.updates = std::move(part.image.updates);
    part.image = std::move(sized);
    FERRY_TRY(copy_part(from, shard, part));
  }
  shards_.run(local, [&](ShardCore& core) { core.install(image); });
  return {};
}

}  // namespace ferry::ps
