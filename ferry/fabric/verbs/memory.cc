#include "ferry/base/clock.h"
#include "ferry/fabric/verbs/memory_internal.h"

namespace ferry::fabric::verbs {

namespace {
constexpr std::size_t kPerChunk = 64;
}  // namespace

Result<Handle<ibv_mr>> register_bytes(const Adapter& adapter, std::span<std::byte> bytes,
                                      int access) {
  const std::int64_t begun = now_ns();
  Handle<ibv_mr> mr(ibv_reg_mr(adapter.pd.get(), bytes.data(), bytes.size(), access));
  int error = errno;
  adapter.registrations.ns += static_cast<std::uint64_t>(now_ns() - begun);
  if (mr != nullptr) {
    ++adapter.registrations.made;
    return mr;
  }
  if (error == ENOMEM) FERRY_TRY(check_memlock(bytes.size()));
  return fail_errno(error,
                    "registering {} bytes with {}; locked memory may be short (ulimit -l), or the "
                    "bytes are not mapped for it",
                    bytes.size(), adapter.name);
}

Result<Buffer*> Buffers::take() {
  for (;;) {
    {
      LockGuard<SpinLock> guard(lock_);
      if (free_ != nullptr) {
        auto* buffer = std::exchange(free_, free_->next);
        buffer->next = nullptr;
        return buffer;
      }
    }
    FERRY_TRY(grow());
  }
}

void Buffers::give(Buffer* buffer) {
  LockGuard<SpinLock> guard(lock_);
  buffer->next = free_;
  free_ = buffer;
}

Status Buffers::grow() {
  Chunk chunk;
  chunk.bytes = FERRY_TRY(Mapping::anonymous(kPerChunk * kMaxMessage));
  chunk.mr = FERRY_TRY(register_bytes(adapter_, chunk.bytes.bytes(), IBV_ACCESS_LOCAL_WRITE));
  LockGuard<Mutex> growing(growing_);
  for (std::size_t i = 0; i < kPerChunk; ++i) {
    buffers_.push_back({chunk.bytes.data() + i * kMaxMessage, chunk.mr->lkey, 0, nullptr});
    give(&buffers_.back());
  }
  chunks_.push_back(std::move(chunk));
  return {};
}

Status BlockKeys::attach(const memory::Block& block) {
  int access = IBV_ACCESS_LOCAL_WRITE;
  if (adapter_.mode == GrantMode::kWindow) access |= IBV_ACCESS_MW_BIND;
  auto mr = FERRY_TRY(register_bytes(adapter_, block.bytes, access));
  LockGuard<SpinLock> guard(lock_);
  keys_[block.id] = std::move(mr);
  return {};
}

void BlockKeys::detach(const memory::Block& block) {
  Handle<ibv_mr> mr;  // deregistered after the lock is gone
  LockGuard<SpinLock> guard(lock_);
  if (auto found = keys_.find(block.id); found != keys_.end()) {
    mr = std::move(found->second);
    keys_.erase(found);
  }
}

ibv_mr* BlockKeys::find(std::uint32_t id) {
  LockGuard<SpinLock> guard(lock_);
  auto found = keys_.find(id);
  return found == keys_.end() ? nullptr : found->second.get();
}

std::unique_ptr<memory::RegistrationCache> make_cache(const Adapter& adapter) {
  auto make = [&adapter](std::span<std::byte> range, std::uint32_t rights) -> Result<void*> {
    auto mr = FERRY_TRY(register_bytes(adapter, range, rights != 0 ? IBV_ACCESS_LOCAL_WRITE : 0));
    return mr.release();
  };
  auto drop = [](void* handle) { Handle<ibv_mr>(static_cast<ibv_mr*>(handle)).reset(); };
  return std::make_unique<memory::RegistrationCache>(memory::RegistrationCache::Options{}, make,
                                                     drop);
}

}  // namespace ferry::fabric::verbs
