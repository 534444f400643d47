#include <algorithm>
#include <chrono>
#include <thread>

#include "ferry/base/log.h"
#include "ferry/ps/server/server_core_internal.h"

// A server that takes the place of one that is gone gets its shards from the two that have them.

namespace ferry::ps {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

}  // namespace

// Shards of which the newcomer is to get a copy.
void Server::Core::give_images(const JobView& view) {
  const auto count = options_.shards;
  const auto* newcomer = view.newcomer(view.coming);
  for (std::uint32_t local = 0; local < shards_.size(); ++local) {
    const auto partner = local < count ? second_of(job_, index_) : first_of(job_, index_);
    const bool wanted = newcomer != nullptr && newcomer->server == partner;
    auto& shard = *shards_[local];
    shard.run([&] { shard.cut(wanted ? newcomer->since : 0); });
  }
}

Result<Bytes> Server::Core::show_image(bootstrap::Decoder& in) {
  const auto local = local_shard(in.u32());
  const auto tensor = in.u32();
  const auto section = in.u32();
  const auto offset = in.u64();
  FERRY_TRY(in.finish("a question for a copy of a shard"));
  if (!local || section >= kSections)
    return fail(Code::kInvalidArgument, "server {} has no such shard", index_);
  std::shared_ptr<ShardImage> image;
  shards_[*local]->run([&] { image = shards_[*local]->image(); });
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

Result<Bytes> Server::Core::catch_up(bootstrap::Decoder& in) {
  const auto first = std::string(in.string(kMostName));
  const auto second = std::string(in.string(kMostName));
  FERRY_TRY(in.finish("where the copies are"));
  if (copier_.joinable())
    return fail(Code::kFailedPrecondition, "server {} was told already", index_);
  copier_ = std::thread([this, first, second] {
    const auto count = options_.shards;
    const auto others = first_of(job_, index_) * count;
    auto done = copy_shards(first, others, count);
    if (done) done = copy_shards(second, first_shard_, 0);
    if (!done) logger().error("server {} got no copies: {}", index_, done.error().message());
    Bytes outcome;
    bootstrap::Encoder(outcome).u8(done ? 1 : 0);
    const auto told =
        scheduler_->call(Ask::kCaughtUp, outcome, Deadline::after(std::chrono::minutes(1)));
    if (!done) end_.set(std::move(done));
    if (!told) end_.set(tl::unexpected<Error>(told.error()));
  });
  return Bytes();
}

// Shards of the job from `shard` on, which are here from `local` on.
Status Server::Core::copy_shards(const std::string& from, std::uint32_t shard,
                                 std::uint32_t local) {
  const auto client = FERRY_TRY(
      RpcClient::connect(*asking_, from, Deadline::after(scaled(kPatience, options_.device))));
  for (std::uint32_t each = 0; each < options_.shards; ++each)
    FERRY_TRY(copy_shard(*client, shard + each, *shards_[local + each]));
  return {};
}

Status Server::Core::copy_shard(RpcClient& from, std::uint32_t number, Shard& shard) {
  const auto ask = [&](std::uint32_t tensor, std::uint32_t section, std::uint64_t offset) {
    Bytes wish;
    bootstrap::Encoder(wish).u32(number).u32(tensor).u32(section).u64(offset);
    return from.call(Ask::kImage, wish, Deadline::after(scaled(kPatience, options_.device)));
  };
  auto answer = ask(0, 0, 0);
  while (!answer && answer.error().code() == Code::kNotFound) {
    if (stop_) return fail(Code::kCancelled, "server {} is being closed", index_);
    std::this_thread::sleep_for(kLookAgain);
    answer = ask(0, 0, 0);
  }
  const auto bytes = FERRY_TRY(std::move(answer));
  bootstrap::Decoder in(bytes);
  auto image = FERRY_TRY(get_shard_image(in, job_));
  for (auto& part : image.parts) {
    PartImage sized;
    shard.run([&] {
      if (auto* own = shard.part_of(part.tensor)) sized = own->empty_image();
    });
    sized.time = part.image.time;
    sized.updates = std::move(part.image.updates);
    part.image = std::move(sized);
    for (std::uint32_t section = 0; section < kSections; ++section) {
      const auto to = section_of(part.image, section);
      for (std::uint64_t at = 0; at < to.size();) {
        const auto piece = FERRY_TRY(ask(part.tensor, section, at));
        if (piece.empty() || piece.size() > to.size() - at)
          return fail(Code::kDataLoss, "a copy of tensor {} has another size", part.tensor);
        std::copy(piece.begin(), piece.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
        at += piece.size();
      }
    }
  }
  shard.run([&] {
    shard.install(image, [&] {
      for (auto& part : image.parts)
        if (auto* own = shard.part_of(part.tensor)) own->restore(std::move(part.image));
    });
  });
  return {};
}

}  // namespace ferry::ps
