// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "ferry/fabric/types.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// A peer's grant as one lane knows it: the key under which the peer's device serves it here.
struct PeerGrant {
  enum class State : std::uint8_t { kAsking, kKnown };
  State state = State::kAsking;
  std::uint32_t rkey = 0;
  RemoteRegion region;                  // kKnown: as the owner says, not as the caller said
  bool leaving = false;                 // revoked: forgotten when the last user has gone
  std::atomic<std::uint32_t> users{0};  // operations that refer to it
};

// All of one lane. Guarded by the backlog's lock, but for drop_user().
class PeerGrants {
 public:
  struct Found {
    PeerGrant* grant;
    bool fresh;  // not known before: ask for it
  };
  // The grant, with one user more.
  Found use(const RemoteRegion& region) {
    auto& place = known_[Key{region.key, region.epoch}];
    bool fresh = place == nullptr;
    if (fresh) {
      place = std::make_unique<PeerGrant>();
      place->region = region;
    }
    place->users.fetch_add(1, std::memory_order_relaxed);
    return {place.get(), fresh};
  }
  PeerGrant* find(const RemoteRegion& region) {
    auto found = known_.find(Key{region.key, region.epoch});
    return found == known_.end() ? nullptr : found->second.get();
  }
  // The owner does not know it. It lives on with the caller, until its last user has gone.
  std::unique_ptr<PeerGrant> remove(const RemoteRegion& region) {
    auto node = known_.extract(Key{region.key, region.epoch});
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  // Revoked: new operations ask anew. True when no operation uses it: it is forgotten at once.
  bool leave(const RemoteRegion& region) {
    auto found = known_.find(Key{region.key, region.epoch});
    if (found == known_.end()) return true;
    found->second->leaving = true;
    leaving_count_.fetch_add(1, std::memory_order_seq_cst);
    bool idle = found->second->users.load(std::memory_order_seq_cst) == 0;
    if (idle) {
      leaving_count_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      leaving_.insert_or_assign(found->first, std::move(found->second));
    }
    known_.erase(found);
    return idle;
  }
  // One user less, without the lock. True when left() is to be asked, under the lock: the grant
  // itself may be gone by now.
  bool drop_user(PeerGrant& grant) {
    return grant.users.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
           leaving_count_.load(std::memory_order_seq_cst) != 0;
  }
  // Whether this was a leaving grant that has lost its last user. True once: tell its owner.
  bool left(const RemoteRegion& region) {
    auto found = leaving_.find(Key{region.key, region.epoch});
    if (found == leaving_.end() || found->second->users.load(std::memory_order_seq_cst) != 0)
      return false;
    leaving_.erase(found);
    leaving_count_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Key {
    std::uint64_t key;
    std::uint32_t epoch;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (key.key ^ key.epoch) * 0x9e3779b97f4a7c15U >> 16;
    }
  };
  using Map = std::unordered_map<Key, std::unique_ptr<PeerGrant>, Hash>;
  Map known_;
  Map leaving_;
  std::atomic<std::uint32_t> leaving_count_{0};
};

}  // namespace ferry::fabric::verbs
