#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "ferry/ps/server/shard_set_internal.h"
#include "ferry/ps/wire/rpc_internal.h"

namespace ferry::ps {

// State transfer: a server that takes the place of one that is gone gets its shards from the two
// servers that have them. Those call offer() and show(), on the threads of their RpcServers; the
// newcomer calls catch_up() on its own, which copies on a thread of this class.
class ShardCopies {
 public:
  // Called on the copying thread, once.
  using Done = std::function<void(Status)>;

  // The device and the shards outlive it. `patience`: how long one question may take.
  ShardCopies(fabric::Device& device, ShardSet& shards, Nanos patience)
      : device_(device), shards_(shards), patience_(patience) {}
  ~ShardCopies() { close(); }
  // Ends the copying.
  void close();

  // Has images made of the shards of which the view's newcomer is to get a copy.
  void offer(const JobView& view);
  // Answers a newcomer: what an image has, or a piece of it.
  Result<Bytes> show(bootstrap::Decoder& in);
  // `first` and `second`: control endpoints of the servers before this one and after it.
  Status catch_up(const std::string& first, const std::string& second, Done done);

 private:
  // The work of the thread: copies this server's second copies from `first`, its own shards from
  // `second`.
  Status copy_all(const std::string& first, const std::string& second);
  // As many as this server has of its own: shards of the job from `shard` on, here from `local` on.
  Status copy_shards(const std::string& from, std::uint32_t shard, std::uint32_t local);
  // Copies one shard of the job, and installs its image in the local one.
  Status copy_shard(RpcClient& from, std::uint32_t shard, std::uint32_t local);
  // Asks for one piece of an image.
  Result<Bytes> ask(RpcClient& from, std::uint32_t shard, std::uint32_t tensor,
                    std::uint32_t section, std::uint64_t offset) const;
  // The description of a shard's image. Waits until the image is made.
  Result<ShardImage> ask_description(RpcClient& from, std::uint32_t shard);
  // Copies the values of one part, whose image has the sizes that it is to have.
  Status copy_part(RpcClient& from, std::uint32_t shard, ShardImage::PartAt& part) const;

  fabric::Device& device_;
  ShardSet& shards_;
  const Nanos patience_;
  std::atomic<bool> stop_{false};
  std::thread copier_;
};

}  // namespace ferry::ps
