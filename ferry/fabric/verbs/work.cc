// Data path.
#include <cstring>
#include <new>

#include "ferry/fabric/verbs/work_internal.h"

namespace ferry::fabric::verbs {

using Lease = memory::RegistrationCache::Lease;

Work& begin_work(Operation& op, const Request& request) {
  auto& work = *new (&op.scratch<Work>()) Work;
  work.local = request.local;
  work.length = request.length;
  work.offset = request.offset;
  work.operand = request.operand;
  work.compare = request.compare;
  return work;
}

Status map_local(Shared& shared, std::uint32_t inline_bytes, Verb verb, Work& work) {
  bool reads = verb == Verb::kRead;
  bool atomic = verb == Verb::kFetchAdd || verb == Verb::kCompareSwap;
  if (atomic || work.length == 0 || (!reads && work.length <= inline_bytes)) return {};
  if (const auto* block = shared.context.find_block(work.local, work.length)) {
    if (auto* mr = shared.blocks.find(block->id)) {
      work.lkey = mr->lkey;
      return {};
    }
  }
  if (work.length <= kMaxMessage) {  // copying is cheaper than registering
    work.bounce = FERRY_TRY(shared.buffers.take());
    if (!reads) std::memcpy(work.bounce->data, work.local, work.length);
    work.lkey = work.bounce->lkey;
    return {};
  }
  auto lease = FERRY_TRY(shared.cache->acquire({work.local, work.length}, reads ? 1 : 0));
  work.lkey = static_cast<ibv_mr*>(lease.handle())->lkey;
  new (work.lease) Lease(std::move(lease));
  work.leased = true;
  return {};
}

void unmap_local(Shared& shared, bool read_is_there, Work& work) {
  if (work.leased) std::launder(reinterpret_cast<Lease*>(work.lease))->~Lease();
  if (work.bounce == nullptr) return;
  if (read_is_there) std::memcpy(work.local, work.bounce->data, work.length);
  shared.buffers.give(work.bounce);
}

}  // namespace ferry::fabric::verbs
