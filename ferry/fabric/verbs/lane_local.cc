// Data path.
#include <cstring>
#include <new>

#include "ferry/fabric/verbs/lane_internal.h"

namespace ferry::fabric::verbs {

using Lease = memory::RegistrationCache::Lease;

Status VerbsLane::map_local(Operation& op, const Request& request) {
  auto& work = op.scratch<Work>();
  bool reads = request.verb == Verb::kRead;
  bool atomic = request.verb == Verb::kFetchAdd || request.verb == Verb::kCompareSwap;
  if (atomic || work.length == 0 || (!reads && work.length <= inline_bytes_)) return {};
  if (const auto* block = shared_.context.find_block(work.local, work.length)) {
    if (auto* mr = shared_.blocks.find(block->id)) {
      work.lkey = mr->lkey;
      return {};
    }
  }
  if (work.length <= kMaxMessage) {  // copying is cheaper than registering
    work.bounce = FERRY_TRY(shared_.buffers.take());
    if (!reads) std::memcpy(work.bounce->data, work.local, work.length);
    work.lkey = work.bounce->lkey;
    return {};
  }
  auto lease = FERRY_TRY(shared_.cache->acquire({work.local, work.length}, reads ? 1 : 0));
  work.lkey = static_cast<ibv_mr*>(lease.handle())->lkey;
  new (work.lease) Lease(std::move(lease));
  work.leased = true;
  return {};
}

void VerbsLane::drop_user(PeerGrant* grant) {
  if (grant == nullptr) return;
  RemoteRegion region = grant->region;
  bool tell_owner = false;
  if (grants_unlocked().drop_user(*grant)) {
    LockGuard<SpinLock> guard(lock_);
    tell_owner = grants_.left(region);
  }
  if (!tell_owner) return;
  Notice notice;
  notice.kind = Notice::Kind::kForgotten;
  notice.region = region;
  tell(notice);
}

void VerbsLane::end(Operation* op, Status status, std::uint64_t value) {
  auto& work = op->scratch<Work>();
  if (work.leased) std::launder(reinterpret_cast<Lease*>(work.lease))->~Lease();
  if (work.bounce != nullptr) {
    if (status && op->verb() == Verb::kRead)
      std::memcpy(work.local, work.bounce->data, work.length);
    shared_.buffers.give(work.bounce);
  }
  drop_user(work.target);
  drop_user(work.flag_target);
  completions_.operation_ended();
  op->finish(std::move(status), value);
}

void VerbsLane::end_all(const Failures& failures) {
  for (const auto& failure : failures) end(failure.op, tl::unexpected(failure.error));
}

}  // namespace ferry::fabric::verbs
