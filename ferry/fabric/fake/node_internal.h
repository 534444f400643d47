#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric::fake {

// One open fake device, as its peers in the same process reach it. Thread-safe.
//
// Whoever touches the device's memory holds the lock, so that revoking a grant, and closing, need
// only take it once to know that no access is running.
class Node {
 public:
  Node(const DeviceId& id, const GrantTable* grants, std::vector<std::unique_ptr<Loop>>* loops)
      : id_(id), grants_(grants), loops_(loops) {}

  const DeviceId& id() const { return id_; }

  // Checks the request and runs `access` on the memory. The owner's table decides, as a NIC's.
  Status touch(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length, Rights need,
               std::uint32_t peer, const std::function<void(std::byte*)>& access);
  // Wakes whoever sleeps until a flag changes.
  void wake();
  // Hands out the region for use in place by `user`, until released.
  Result<std::span<std::byte>> lend(const RemoteRegion& remote, std::uint32_t peer,
                                    const void* user);
  void release(const void* user);
  // Calls `quiet` once nobody touches the grant's memory any more.
  void revoke(std::uint64_t key, std::function<void()> quiet);
  void close();

 private:
  Status touch_locked(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
                      Rights need, std::uint32_t peer,
                      const std::function<void(std::byte*)>& access) FERRY_REQUIRES(lock_);

  const DeviceId id_;
  Mutex lock_;
  const GrantTable* grants_ FERRY_GUARDED_BY(lock_);  // null once closed
  std::vector<std::unique_ptr<Loop>>* loops_ FERRY_GUARDED_BY(lock_);
  std::multimap<std::uint64_t, const void*> lent_ FERRY_GUARDED_BY(lock_);  // by key
  std::multimap<std::uint64_t, std::function<void()>> waiting_ FERRY_GUARDED_BY(lock_);
};

// The two ends of one lane. Thread-safe.
class Link {
 public:
  static constexpr std::size_t kInbox = 64;  // messages held for a peer that does not read

  // `end` is 0 for the connector and 1 for the acceptor. The loop is the end's own.
  void attach(int end, Loop* loop);
  void detach(int end);
  // Both ends see it and fail.
  void break_up();
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  bool peer_attached(int end);

  // False while the peer's inbox is full.
  bool deliver(int from, std::span<const std::byte> message);
  Result<std::size_t> take(int end, std::span<std::byte> into);
  bool has_message(int end);

 private:
  struct End {
    Loop* loop = nullptr;
    std::deque<std::vector<std::byte>> inbox;
  };
  void wake_locked(int end) FERRY_REQUIRES(lock_);

  Mutex lock_;
  std::array<End, 2> ends_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> broken_{false};
};

// Where devices of this process find each other. Thread-safe.
class Registry {
 public:
  static Registry& instance();

  void add(std::shared_ptr<Node> node);
  void remove(const DeviceId& id);
  std::shared_ptr<Node> find(const DeviceId& id);

  // A link that the acceptor made, for the connector to pick up once.
  std::uint64_t offer_link(const std::shared_ptr<Link>& link);
  std::shared_ptr<Link> take_link(std::uint64_t token);

 private:
  Mutex lock_;
  std::map<DeviceId, std::shared_ptr<Node>> nodes_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint64_t, std::weak_ptr<Link>> links_ FERRY_GUARDED_BY(lock_);
  std::uint64_t next_token_ FERRY_GUARDED_BY(lock_) = 1;
};

}  // namespace ferry::fabric::fake
