#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/verbs/memory_internal.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// A window that is to be bound to a lane's queue pair, and the grant that it serves.
struct Bind {
  ibv_mw* window = nullptr;
  ibv_mr* memory = nullptr;
  std::uint32_t rkey = 0;
  GrantTable::Grant grant;
};

// A lane as Exposures sees it: its peer may be given access to grants. Any thread.
class GrantHolder {
 public:
  virtual ~GrantHolder() = default;
  // Posts the bind request when it can; Exposures::bound() hears of its completion.
  virtual void bind(const Bind& bind) = 0;
  // Sends a notice to the peer's end of the lane.
  virtual void tell(Notice notice) = 0;
  // Has the loop take the lane down for this reason; the first reason counts.
  virtual void fail_soon(Error cause) = 0;
  virtual bool up() const = 0;
  virtual std::uint32_t session_number() const = 0;
};

// The owner's side of grants: what peers can reach through which lane, and how that is taken back.
//
// A lane reaches a grant through a window of its own, bound to its queue pair when the peer first
// asks; without windows, through the grant's own registration. Taking back: the peer is asked to
// let go; when it says so, or its lane is gone, the window is. A peer that does not answer loses
// the lane. Thread-safe.
class Exposures {
 public:
  Exposures(const Adapter& adapter, BlockKeys& blocks, const GrantTable& grants, Nanos patience)
      : adapter_(adapter), blocks_(blocks), grants_(grants), patience_(patience) {}

  // A peer asks where a grant is, for this lane: answers it now or when the window is bound.
  void resolve(const std::shared_ptr<GrantHolder>& lane, const RemoteRegion& asked);
  // The lane's bind request has completed.
  void bound(GrantHolder& lane, std::uint64_t key);
  // The peer let go of a revoked grant.
  void forgotten(GrantHolder& lane, std::uint64_t key);
  // The lane is down: nothing can come through it any more. Before its queue pair is destroyed.
  void drop_lane(GrantHolder& lane);

  // Waits a little for the peers' answers, unless it is called on the thread that hears them: so
  // that when it returns, requests fail by name and no lane has to break over them.
  void revoke(const GrantTable::Grant& grant, std::function<void()> quiet);
  bool revoking() const { return revoking_.load(std::memory_order_relaxed) != 0; }
  // Takes the lanes of peers that do not let go in time.
  void tick(std::int64_t now);

 private:
  struct Done {
    Mutex lock;
    std::condition_variable_any changed;
    bool yes FERRY_GUARDED_BY(lock) = false;
    void wait(Deadline deadline);
  };
  // Calls `quiet` when the last exposure of a revoked grant is gone.
  struct Revocation {
    std::function<void()> quiet;
    std::atomic<std::size_t>* count;
    std::shared_ptr<Done> done;
    ~Revocation();
  };
  // Members die bottom up: the window, what it lies on, then the word that all is quiet.
  struct Exposure {
    std::shared_ptr<Revocation> revocation;  // shared by the exposures of one grant
    std::weak_ptr<GrantHolder> lane;
    const GrantHolder* who = nullptr;
    GrantTable::Grant grant;
    std::uint32_t rkey = 0;
    bool live = false;    // the peer may be told
    bool let_go = false;  // the peer has forgotten it
    std::int64_t let_go_by = 0;
    std::shared_ptr<ibv_mr> memory;  // of the grant alone, unless windows are on the block's
    Handle<ibv_mw> window;
  };
  using List = std::vector<std::unique_ptr<Exposure>>;

  Exposure* find(GrantHolder& lane, std::uint64_t key) FERRY_REQUIRES(lock_);
  std::unique_ptr<Exposure> extract(GrantHolder& lane, std::uint64_t key);
  Status expose(const std::shared_ptr<GrantHolder>& lane, const GrantTable::Grant& grant);
  Result<std::shared_ptr<ibv_mr>> memory_of(const GrantTable::Grant& grant);
  void answer(GrantHolder& lane, const GrantTable::Grant& grant, std::uint32_t rkey);

  const Adapter& adapter_;
  BlockKeys& blocks_;
  const GrantTable& grants_;
  Nanos patience_;
  std::atomic<std::size_t> revoking_{0};
  std::atomic<std::thread::id> hearer_{};  // the thread that brings the peers' notices
  Mutex lock_;
  std::unordered_map<std::uint64_t, List> by_key_ FERRY_GUARDED_BY(lock_);
};

// The device's flags for a grant's rights.
int access_of(Rights rights);

}  // namespace ferry::fabric::verbs
