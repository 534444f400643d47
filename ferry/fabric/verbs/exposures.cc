#include <algorithm>

#include "ferry/fabric/verbs/exposures_internal.h"

namespace ferry::fabric::verbs {

namespace {

Notice notice_of(Notice::Kind kind, const GrantTable::Grant& grant) {
  Notice notice;
  notice.kind = kind;
  notice.region = {grant.key, grant.address, grant.length, grant.epoch, grant.rights};
  return notice;
}

void refuse(GrantHolder& lane, const RemoteRegion& asked, const Error& error) {
  Notice notice;
  notice.kind = Notice::Kind::kResolved;
  notice.region = asked;
  notice.code = error.code();
  notice.text = error.message();
  lane.tell(notice);
}

}  // namespace

Exposures::Revocation::~Revocation() {
  count->fetch_sub(1, std::memory_order_relaxed);
  quiet();
  LockGuard<Mutex> guard(done->lock);
  done->yes = true;
  done->changed.notify_all();
}

void Exposures::Done::wait(Deadline deadline) {
  LockGuard<Mutex> guard(lock);
  while (!yes && !deadline.expired()) changed.wait_for(lock, deadline.left());
}

int access_of(Rights rights) {
  int access = 0;
  if (allows(rights, Rights::kRead)) access |= IBV_ACCESS_REMOTE_READ;
  if (allows(rights, Rights::kWrite)) access |= IBV_ACCESS_REMOTE_WRITE;
  if (allows(rights, Rights::kAtomic)) access |= IBV_ACCESS_REMOTE_ATOMIC;
  return access;
}

Exposures::Exposure* Exposures::find(GrantHolder& lane, std::uint64_t key) {
  auto list = by_key_.find(key);
  if (list == by_key_.end()) return nullptr;
  auto found = std::find_if(list->second.begin(), list->second.end(),
                            [&](const auto& exposure) { return exposure->who == &lane; });
  return found == list->second.end() ? nullptr : found->get();
}

std::unique_ptr<Exposures::Exposure> Exposures::extract(GrantHolder& lane, std::uint64_t key) {
  LockGuard<Mutex> guard(lock_);
  auto list = by_key_.find(key);
  if (list == by_key_.end()) return nullptr;
  auto found = std::find_if(list->second.begin(), list->second.end(),
                            [&](const auto& exposure) { return exposure->who == &lane; });
  if (found == list->second.end()) return nullptr;
  auto exposure = std::move(*found);
  list->second.erase(found);
  if (list->second.empty()) by_key_.erase(list);
  return exposure;
}

void Exposures::answer(GrantHolder& lane, const GrantTable::Grant& grant, std::uint32_t rkey) {
  auto notice = notice_of(Notice::Kind::kResolved, grant);
  notice.rkey = rkey;
  lane.tell(notice);
}

void Exposures::resolve(const std::shared_ptr<GrantHolder>& lane, const RemoteRegion& asked) {
  hearer_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  auto grant = grants_.check(asked, 0, 0, Rights::kNone, lane->session_number());
  if (!grant) return refuse(*lane, asked, grant.error());
  {
    LockGuard<Mutex> guard(lock_);
    if (auto* known = find(*lane, asked.key)) {
      if (known->live) answer(*lane, known->grant, known->rkey);
      return;
    }
  }
  if (auto exposed = expose(lane, *grant); !exposed) {
    extract(*lane, asked.key);
    refuse(*lane, asked, exposed.error());
  }
}

Result<std::shared_ptr<ibv_mr>> Exposures::memory_of(const GrantTable::Grant& grant) {
  if (adapter_.mode == GrantMode::kWindow) return nullptr;
  {
    LockGuard<Mutex> guard(lock_);
    if (auto list = by_key_.find(grant.key); list != by_key_.end())
      for (const auto& exposure : list->second)
        if (exposure->memory != nullptr) return exposure->memory;
  }
  int access = IBV_ACCESS_LOCAL_WRITE;
  access |= adapter_.mode == GrantMode::kTightWindow ? IBV_ACCESS_MW_BIND : access_of(grant.rights);
  std::span bytes(reinterpret_cast<std::byte*>(grant.address), grant.length);
  return std::shared_ptr<ibv_mr>(FERRY_TRY(register_bytes(adapter_, bytes, access)));
}

Status Exposures::expose(const std::shared_ptr<GrantHolder>& lane, const GrantTable::Grant& grant) {
  auto exposure = std::make_unique<Exposure>();
  exposure->lane = lane;
  exposure->who = lane.get();
  exposure->grant = grant;
  exposure->memory = FERRY_TRY(memory_of(grant));
  ibv_mr* base = exposure->memory != nullptr ? exposure->memory.get() : blocks_.find(grant.block);
  if (base == nullptr)
    return fail(Code::kFailedPrecondition, "the memory of grant {:#x} is gone", grant.key);
  bool windows = adapter_.mode != GrantMode::kRegistration;
  if (windows) {
    exposure->window.reset(ibv_alloc_mw(adapter_.pd.get(), IBV_MW_TYPE_2));
    if (exposure->window == nullptr)
      return fail_errno(errno, "a memory window on {} for grant {:#x}", adapter_.name, grant.key);
  }
  auto* window = exposure->window.get();
  exposure->rkey = windows ? ibv_inc_rkey(window->rkey) : base->rkey;
  exposure->live = !windows;
  auto rkey = exposure->rkey;
  {
    LockGuard<Mutex> guard(lock_);
    by_key_[grant.key].push_back(std::move(exposure));
  }
  // From here on revoke() and drop_lane() find it; look whether they have been before.
  if (!grants_.stands(grant.key, grant.epoch))
    return fail(Code::kFailedPrecondition, "grant {:#x} was revoked", grant.key);
  if (!lane->up()) return fail(Code::kUnavailable, "the lane is down");
  if (windows) {
    lane->bind({window, base, rkey, grant});
  } else {
    answer(*lane, grant, rkey);
  }
  return {};
}

void Exposures::bound(GrantHolder& lane, std::uint64_t key) {
  {
    LockGuard<Mutex> guard(lock_);
    auto* exposure = find(lane, key);
    if (exposure == nullptr) return;
    exposure->live = true;
    if (exposure->revocation == nullptr) answer(lane, exposure->grant, exposure->rkey);
    if (!exposure->let_go) return;
  }
  extract(lane, key).reset();
}

void Exposures::forgotten(GrantHolder& lane, std::uint64_t key) {
  {
    LockGuard<Mutex> guard(lock_);
    auto* exposure = find(lane, key);
    if (exposure == nullptr || exposure->revocation == nullptr) return;
    exposure->let_go = true;
    if (!exposure->live) return;  // the window goes when it is bound
  }
  extract(lane, key).reset();
}

void Exposures::drop_lane(GrantHolder& lane) {
  List gone;
  {
    LockGuard<Mutex> guard(lock_);
    for (auto list = by_key_.begin(); list != by_key_.end();) {
      auto mine = std::partition(list->second.begin(), list->second.end(),
                                 [&](const auto& exposure) { return exposure->who != &lane; });
      std::move(mine, list->second.end(), std::back_inserter(gone));
      list->second.erase(mine, list->second.end());
      list = list->second.empty() ? by_key_.erase(list) : std::next(list);
    }
  }
}

void Exposures::revoke(const GrantTable::Grant& grant, std::function<void()> quiet) {
  std::vector<std::shared_ptr<GrantHolder>> holders;
  std::shared_ptr<Revocation> revocation;
  auto done = std::make_shared<Done>();
  {
    LockGuard<Mutex> guard(lock_);
    auto list = by_key_.find(grant.key);
    if (list == by_key_.end()) {
      // Nobody ever asked: nothing to take back.
    } else {
      revoking_.fetch_add(1, std::memory_order_relaxed);
      revocation.reset(new Revocation{quiet, &revoking_, done});
      for (auto& exposure : list->second) {
        exposure->revocation = revocation;
        exposure->let_go_by = now_ns() + patience_.count();
        if (auto lane = exposure->lane.lock()) holders.push_back(std::move(lane));
      }
    }
  }
  if (revocation == nullptr) return quiet();
  for (auto& lane : holders) lane->tell(notice_of(Notice::Kind::kForget, grant));
  revocation.reset();
  if (hearer_.load(std::memory_order_relaxed) != std::this_thread::get_id())
    done->wait(Deadline::after(patience_ / 10));
}

void Exposures::tick(std::int64_t now) {
  std::vector<std::shared_ptr<GrantHolder>> late;
  {
    LockGuard<Mutex> guard(lock_);
    for (auto& [key, list] : by_key_)
      for (auto& exposure : list)
        if (exposure->revocation != nullptr && exposure->let_go_by < now)
          if (auto lane = exposure->lane.lock()) late.push_back(std::move(lane));
  }
  for (auto& lane : late)
    lane->fail_soon(Error(Code::kAborted, "the peer did not let go of a revoked grant in time", 0,
                          __FILE__, __LINE__));
}

}  // namespace ferry::fabric::verbs
