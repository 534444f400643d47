// Data path.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "ferry/base/log_limit.h"
#include "ferry/base/spin.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/peer_internal.h"

namespace ferry::fabric::shm {

namespace {

constexpr std::size_t kPageMask = kPage - 1;

// Page table entries now, not one fault at a time within a transfer. Best effort.
void populate(std::byte* at, std::uint64_t length, bool writable) {
  auto begin = reinterpret_cast<std::uintptr_t>(at) & ~kPageMask;
  auto end = (reinterpret_cast<std::uintptr_t>(at) + length + kPageMask) & ~kPageMask;
  ::madvise(reinterpret_cast<void*>(begin), end - begin,
            writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

bool within(const Mapping& mapping, const std::byte* at) {
  return at != nullptr && mapping && at >= mapping.data() && at < mapping.data() + mapping.size();
}

}  // namespace

Peer::~Peer() {
  LockGuard<Mutex> guard(lock_);
  blocks_.clear();
  kept_.clear();
  dropped_.clear();
  for (auto& link : links_) link->say_goodbye();
}

void Peer::ring(std::size_t loop) const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(events_[loop].get(), &one, sizeof one);
}

Result<std::span<std::byte>> Peer::resolve(const RemoteRegion& remote, Deadline deadline) {
  auto grant = FERRY_TRY(check(remote, 0, 0, Rights::kNone));
  if (grant.mappable) FERRY_TRY(await_block(grant.block, deadline));
  LockGuard<Mutex> guard(lock_);
  std::byte* base = FERRY_TRY(base_of(grant));
  fill(grant, base);
  return std::span(base, base == nullptr ? 0 : grant.length);
}

// A block is announced before anything in it can be granted: the news may wait in the socket, or
// another thread may be about to take them in. A peer that has them wait at its own end may be
// stopped.
Status Peer::await_block(std::uint32_t id, Deadline deadline) {
  for (bool looked = false;; looked = true) {
    const bool expired = deadline.expired();
    {
      LockGuard<Mutex> guard(lock_);
      if (blocks_.contains(id)) return {};
    }
    if (looked && expired)
      return fail(Code::kDeadlineExceeded,
                  "the peer has granted memory of a block {} that it has not handed over", id);
    if (looked) std::this_thread::sleep_for(waiting::kAnnouncedBlock);
    take_news();
  }
}

Result<std::byte*> Peer::base_of(const GrantTable::Grant& grant) {
  if (!grant.mappable) return nullptr;
  auto found = blocks_.find(grant.block);
  if (found == blocks_.end())
    return fail(Code::kUnavailable, "the peer has taken block {} back", grant.block);
  Mapped& block = found->second;
  if (grant.block_offset > block.length || grant.length > block.length - grant.block_offset)
    return fail(Code::kDataLoss, "the peer's grant {:#x} lies outside its block {}", grant.key,
                grant.block);
  bool writes = allows(grant.rights, Rights::kWrite) || allows(grant.rights, Rights::kAtomic);
  Mapping& mapping = writes ? block.writable : block.readable;
  if (!mapping) {
    const Fd& fd = writes ? block.read_write : block.read_only;
    mapping = FERRY_TRY(Mapping::shared(fd.get(), block.length, writes));
  }
  std::byte* base = mapping.data() + grant.block_offset;
  populate(base, grant.length, writes);
  return base;
}

void Peer::fill(const GrantTable::Grant& grant, std::byte* base) {
  Entry* set = &cache_[grant.key % kSets * 2];
  bool first = set[0].key.load(std::memory_order_relaxed) == grant.key;
  bool second = set[1].key.load(std::memory_order_relaxed) == grant.key;
  if (first || second) return;  // a key means the same for ever, whatever a peer says later
  Entry& entry = set[next_way_++ % 2];
  entry.key.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.base.store(base, std::memory_order_relaxed);
  entry.length.store(grant.length, std::memory_order_relaxed);
  entry.rights.store(static_cast<std::uint32_t>(grant.rights), std::memory_order_relaxed);
  entry.key.store(grant.key, std::memory_order_release);
}

Error Peer::why_not(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
                    Rights need) const {
  auto checked = check(remote, offset, length, need);
  if (!checked) return checked.error();
  return fail(Code::kFailedPrecondition, "the grant {:#x} was revoked; look the region up again",
              remote.key)
      .value();
}

std::span<const std::byte> Peer::source(std::uint32_t id) {
  LockGuard<Mutex> guard(lock_);
  auto found = blocks_.find(id);
  if (found == blocks_.end()) return {};
  Mapped& block = found->second;
  if (!block.readable) {
    auto mapping = Mapping::shared(block.read_only.get(), block.length, false);
    if (!mapping) return {};
    block.readable = std::move(*mapping);
  }
  return block.readable.bytes();
}

void Peer::hold(std::uint64_t key) {
  LockGuard<Mutex> guard(lock_);
  ++held_[key];
}

void Peer::let_go(std::uint64_t key) {
  LockGuard<Mutex> guard(lock_);
  auto found = held_.find(key);
  if (found != held_.end() && --found->second == 0) held_.erase(found);
}

bool Peer::holds(std::uint64_t key) {
  LockGuard<Mutex> guard(lock_);
  return held_.contains(key);
}

Status Peer::meet(std::vector<Fd> fds, std::uint32_t loops) {
  LockGuard<Mutex> guard(lock_);
  if (met_) return {};
  if (fds.size() != 3 + loops)
    return fail(Code::kInvalidArgument, "a hello with {} descriptors for {} loops", fds.size(),
                loops);
  FERRY_TRY(check_segment(fds[0].get(), GrantTable::kBytes));
  FERRY_TRY(check_segment(fds[1].get(), sizeof(Bell) * loops));
  FERRY_TRY(check_segment(fds[2].get(), sizeof(Doorbell) * loops));
  table_ = FERRY_TRY(GrantTable::map(std::move(fds[0])));
  mark_ = table_->mark();
  bell_mapping_ = FERRY_TRY(Mapping::shared(fds[1].get(), sizeof(Bell) * loops, false));
  doorbell_mapping_ = FERRY_TRY(Mapping::shared(fds[2].get(), sizeof(Doorbell) * loops));
  bells_ = reinterpret_cast<const Bell*>(bell_mapping_.data());
  doorbells_ = reinterpret_cast<Doorbell*>(doorbell_mapping_.data());
  for (std::size_t i = 3; i < fds.size(); ++i) events_.push_back(std::move(fds[i]));
  loops_ = loops;
  met_ = true;
  return {};
}

void Peer::add_link(std::shared_ptr<Link> link) {
  LockGuard<Mutex> guard(lock_);
  links_.push_back(std::move(link));
}

std::shared_ptr<Link> Peer::first_link() {
  LockGuard<Mutex> guard(lock_);
  return links_.empty() ? nullptr : links_.front();
}

void Peer::take_news() {
  std::vector<std::shared_ptr<Link>> links;
  {
    LockGuard<Mutex> guard(lock_);
    links = links_;
  }
  for (auto& link : links) link->take();
}

// A block costs two descriptors: one peer may take half of those that this process may have.
std::size_t Peer::blocks_of_one_peer() {
  constexpr std::size_t kFewest = 64;
  constexpr std::size_t kMost = 65536;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<std::size_t>(limit.rlim_cur / 4, kFewest, kMost);
}

Status Peer::take_question() {
  if (questions_.fetch_add(1, std::memory_order_relaxed) < kMostQuestions) return {};
  question_answered();
  return fail(Code::kResourceExhausted, "the peer asks about more than {} revoked grants at once",
              kMostQuestions);
}

Status Peer::take_block(std::uint32_t id, std::uint64_t length, std::vector<Fd> fds) {
  for (const auto& fd : fds) {
    auto checked = check_segment(fd.get(), length);
    if (!checked) {
      static LogLimit limit("refused blocks");
      limit.warn("block {} of session {}: {}", id, number_, checked.error().to_string());
      return {};
    }
  }
  LockGuard<Mutex> guard(lock_);
  if (blocks_.size() + kept_.size() + dropped_.size() >= most_blocks_)
    return fail(Code::kResourceExhausted,
                "the peer hands over more than {} blocks of memory; raise the limit of open files "
                "(ulimit -n) or let it allocate larger ones",
                most_blocks_);
  auto [place, fresh] = blocks_.try_emplace(id);
  if (!fresh) return {};
  place->second.length = length;
  place->second.read_write = std::move(fds[0]);
  place->second.read_only = std::move(fds[1]);
  // What was taken for the peer's own memory may have been in this block.
  for (auto& entry : cache_)
    if (entry.base.load(std::memory_order_relaxed) == nullptr)
      entry.key.store(0, std::memory_order_relaxed);
  return {};
}

// A peer that drops a block whose grants still stand must not make us touch what is unmapped: first
// nobody finds it any more, then those who have found it leave.
void Peer::drop_block(std::uint32_t id) {
  Mapped gone;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = blocks_.find(id);
    if (found == blocks_.end()) return;
    gone = std::move(found->second);
    blocks_.erase(found);
    for (auto& entry : cache_) {
      const auto* base = entry.base.load(std::memory_order_relaxed);
      if (within(gone.writable, base) || within(gone.readable, base))
        entry.key.store(0, std::memory_order_relaxed);
    }
    if (!held_.empty()) {
      kept_.push_back(std::move(gone));  // the user may be working in it
      return;
    }
  }
  auto users = InFlight::Running::now(InFlight::Memory::kBoth);
  if (users.ended()) return;
  LockGuard<Mutex> guard(lock_);
  dropped_.push_back({std::move(gone), std::move(users)});
}

bool Peer::unmap_dropped() {
  std::vector<Dropped> unused;  // unmapped after the lock is gone
  LockGuard<Mutex> guard(lock_);
  auto first = std::partition(dropped_.begin(), dropped_.end(),
                              [](Dropped& dropped) { return !dropped.users.ended(); });
  unused.assign(std::make_move_iterator(first), std::make_move_iterator(dropped_.end()));
  dropped_.erase(first, dropped_.end());
  return !dropped_.empty();
}

std::shared_ptr<PeerSession> Peer::session() {
  LockGuard<Mutex> guard(lock_);
  return session_;
}

void Peer::forget() {
  LockGuard<Mutex> guard(lock_);
  session_.reset();
}

void Peer::lost(Error cause) {
  auto session = this->session();
  if (session != nullptr) session->peer_lost(std::move(cause));
}

}  // namespace ferry::fabric::shm
