#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "ferry/fabric/fake/lane_internal.h"

namespace ferry::fabric::fake {

namespace {

constexpr std::size_t kMaxMessage = 4096;
constexpr int kBurst = 64;

// Word by word from the beginning: whoever sees a byte of it sees all that lie before. Words of the
// target are stored whole.
void copy_ascending(std::byte* to, const std::byte* from, std::size_t bytes) {
  while (bytes != 0) {
    bool whole = reinterpret_cast<std::uintptr_t>(to) % sizeof(std::uint64_t) == 0 &&
                 bytes >= sizeof(std::uint64_t);
    if (whole) {
      std::uint64_t word = 0;
      std::memcpy(&word, from, sizeof word);
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(to), word, __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(reinterpret_cast<unsigned char*>(to), std::to_integer<unsigned char>(*from),
                       __ATOMIC_RELEASE);
    }
    std::size_t step = whole ? sizeof(std::uint64_t) : 1;
    to += step;
    from += step;
    bytes -= step;
  }
}

Error make_error(Code code, const char* text) { return Error(code, text, 0, __FILE__, __LINE__); }

Rights rights_for(Verb verb) {
  if (verb == Verb::kRead) return Rights::kRead;
  if (verb == Verb::kWrite) return Rights::kWrite;
  return Rights::kAtomic;
}

}  // namespace

FakeLane::FakeLane(Loop& loop, OperationPool& operations, std::shared_ptr<PeerSession> peer,
                   std::shared_ptr<Node> peer_node, std::shared_ptr<Link> link, int end)
    : Lane(loop),
      operations_(operations),
      peer_(std::move(peer)),
      peer_node_(std::move(peer_node)),
      link_(std::move(link)),
      end_(end) {
  link_->attach(end_, &loop);
  loop.add(this);
}

FakeLane::~FakeLane() { close(make_error(Code::kCancelled, "the lane was dropped")); }

Capabilities FakeLane::what_it_can() {
  auto path = Dice::instance().path();
  return {.one_sided = true,
          .maps_peer = path.maps_peer,
          .tail_flag = path.tail_flag,
          .atomics = true,
          .max_message = kMaxMessage};
}

Transfer FakeLane::post(Request& request) {
  Operation* op = nullptr;
  {
    LockGuard guard(post_lock_);
    if (cause_) return Transfer::failed(*cause_);
    op = operations_.make(request, loop());
    auto& job = op->scratch<Job>();
    job = Job{.sequence = 0,
              .local = request.local,
              .length = request.length,
              .left = request.length,
              .remote = request.remote,
              .offset = request.offset,
              .flag = request.flag != nullptr ? *request.flag : Flag{},
              .flagged = request.flag != nullptr,
              .executed = false,
              .operand = request.operand,
              .compare = request.compare,
              .fate = Dice::instance().next_operation()};
    posted_.push_back(op);
    pending_.fetch_add(1, std::memory_order_relaxed);
  }
  loop().notify();
  return Transfer::pending(op);
}

Result<std::size_t> FakeLane::take_message(std::span<std::byte> into) {
  return link_->take(end_, into);
}

bool FakeLane::has_message() const { return link_->has_message(end_); }

Result<std::span<std::byte>> FakeLane::map(const RemoteRegion& remote, Deadline deadline) {
  if (!capabilities_.maps_peer) return Lane::map(remote, deadline);
  if (Dice::instance().is_map_late())
    return fail(Code::kDeadlineExceeded, "the peer has not handed over what it has granted");
  return peer_node_->lend(remote, peer_->number_at_peer(), this);
}

void FakeLane::close(const Error& cause) {
  LockGuard once(close_lock_);
  if (removed_) return;
  {
    LockGuard guard(post_lock_);
    if (!cause_) cause_ = cause;
  }
  up_.store(false, std::memory_order_release);
  link_->detach(end_);
  loop().with_token([&] { end_all(cause); });
  loop().remove(this);
  peer_node_->release(this);
  removed_ = true;
}

int FakeLane::take_posted() {
  {
    LockGuard guard(post_lock_);
    taken_.swap(posted_);
  }
  for (Operation* op : taken_) {
    op->scratch<Job>().sequence = next_sequence_;
    in_flight_.emplace(next_sequence_++, op);
    waiting_.push_back(op);
  }
  int count = static_cast<int>(taken_.size());
  taken_.clear();
  return count;
}

int FakeLane::progress_on_loop() {
  if (pending_.load(std::memory_order_relaxed) == 0) return 0;
  if (!up_.load(std::memory_order_acquire)) return 0;
  int work = take_posted();
  if (link_->broken()) {
    break_up(make_error(Code::kUnavailable, "the fake link broke; operations must be repeated"),
             false);
    return 1;
  }
  if (!link_->peer_attached(end_)) {
    end_all(make_error(Code::kUnavailable, "the peer closed its end of the fake link"));
    return 1;
  }
  work += execute_some();
  return work + deliver_completions();
}

// Walks the operations in the order of posting; a shuffled one sits out a burst now and then, so
// that later ones overtake it. Those that are seen in order by the peer (flags, messages) wait for
// all before them.
int FakeLane::execute_some() {
  int work = 0;
  bool all_before = true;
  for (std::size_t i = 0; i < waiting_.size() && work < kBurst; ++i) {
    Operation& op = *waiting_[i];
    auto& job = op.scratch<Job>();
    if (!start_now(job)) {
      all_before = false;
      continue;
    }
    ++work;
    if (job.fate.shuffle && Dice::instance().random(2) == 0) {
      all_before = false;
      continue;
    }
    if (job.fate.break_lane || job.fate.lose_peer) {
      break_up(make_error(Code::kUnavailable, "the script cut the fake link here"),
               job.fate.lose_peer);
      return work;
    }
    auto outcome = step(op, job, all_before);
    if (outcome.executed) {
      complete(job, std::move(outcome));
    } else {
      all_before = false;
      if (op.verb() == Verb::kMessage) --work;  // no room at the peer: that is not progress
    }
  }
  std::erase_if(waiting_, [](Operation* op) { return op->scratch<Job>().executed; });
  return work;
}

bool FakeLane::start_now(const Job& job) const {
  return job.fate.not_before == 0 || now_ns() >= job.fate.not_before;
}

FakeLane::Step FakeLane::step(Operation& op, Job& job, bool all_before) {
  if (job.fate.failure != Code::kOk) {
    Dice::instance().failed.add();
    return {true, make_error(job.fate.failure, "the script failed this operation"), 0};
  }
  switch (op.verb()) {
    case Verb::kWrite:
    case Verb::kRead:
      break;
    case Verb::kMessage: {
      bool sent = all_before && link_->deliver(end_, {job.local, job.length});
      return {sent, {}, 0};
    }
    default:
      return run_atomic(op, job);
  }
  auto moved = move_payload(op, job);
  if (!moved.executed || moved.error || !job.flagged) return moved;
  if (!all_before) return {};
  return store_flag(job);
}

// One piece per step, the last first unless the lane keeps order: nothing else may rely on the
// order in which bytes land. The grant is checked for every piece, so that revoking takes hold
// between two.
FakeLane::Step FakeLane::move_payload(Operation& op, Job& job) {
  if (job.length != 0 && job.left == 0) return {true, {}, 0};
  std::size_t piece = job.left;
  if (job.fate.piece_bytes != 0) piece = std::min<std::size_t>(piece, job.fate.piece_bytes);
  bool ascending = capabilities_.tail_flag && op.verb() == Verb::kWrite;
  std::size_t at = ascending ? job.length - job.left : job.left - piece;
  auto access = [&](std::byte* remote) {
    if (piece == 0) return;
    if (ascending) {
      copy_ascending(remote, job.local + at, piece);
    } else if (op.verb() == Verb::kWrite) {
      std::memcpy(remote, job.local + at, piece);
    } else {
      std::memcpy(job.local + at, remote, piece);
    }
  };
  auto moved = peer_node_->touch(job.remote, job.offset + at, piece, rights_for(op.verb()),
                                 peer_->number_at_peer(), access);
  if (!moved) return {true, moved.error(), 0};
  job.left -= piece;
  if (job.left != 0) job.fate.not_before = Dice::instance().next_start();
  return {job.left == 0, {}, 0};
}

FakeLane::Step FakeLane::store_flag(Job& job) {
  auto access = [&](std::byte* word) {
    Dice::instance().flags.add();
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word))
        .store(job.flag.value, std::memory_order_release);
  };
  auto stored = peer_node_->touch(job.flag.region, job.flag.offset, sizeof(std::uint64_t),
                                  Rights::kWrite, peer_->number_at_peer(), access);
  if (!stored) return {true, stored.error(), 0};
  if (job.flag.notify) peer_node_->wake();
  return {true, {}, 0};
}

FakeLane::Step FakeLane::run_atomic(Operation& op, Job& job) {
  Step outcome{true, {}, 0};
  auto access = [&](std::byte* at) {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(at));
    if (op.verb() == Verb::kFetchAdd) {
      outcome.value = word.fetch_add(job.operand);
    } else {
      outcome.value = job.compare;  // becomes what was found where that differs
      word.compare_exchange_strong(outcome.value, job.operand);
    }
  };
  auto done = peer_node_->touch(job.remote, job.offset, sizeof(std::uint64_t), Rights::kAtomic,
                                peer_->number_at_peer(), access);
  if (!done) outcome.error = done.error();
  return outcome;
}

void FakeLane::complete(Job& job, Step outcome) {
  job.executed = true;
  if (job.fate.lose_completion) {
    Dice::instance().lost.add();
    return;
  }
  completions_.push_back({job.sequence, outcome.error, outcome.value, job.fate.shuffle});
  if (job.fate.duplicate_completion) completions_.push_back(completions_.back());
}

int FakeLane::deliver_completions() {
  auto arrived = std::exchange(completions_, {});
  std::vector<std::size_t> order(arrived.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (auto& place : order) {
    if (arrived[place].shuffle) std::swap(place, order[Dice::instance().random(order.size())]);
  }
  for (std::size_t place : order) {
    auto& completion = arrived[place];
    Status status;
    if (completion.error) status = tl::unexpected<Error>(*completion.error);
    end(completion.sequence, std::move(status), completion.value);
  }
  return static_cast<int>(arrived.size());
}

// A completion whose operation has ended already (a repeated one, or one that came after the
// deadline) is swallowed: every operation ends once.
void FakeLane::end(std::uint64_t sequence, Status status, std::uint64_t value) {
  auto node = in_flight_.extract(sequence);
  if (node.empty()) {
    Dice::instance().duplicates_swallowed.add();
    return;
  }
  pending_.fetch_sub(1, std::memory_order_relaxed);
  node.mapped()->finish(std::move(status), value);
}

void FakeLane::tick_on_loop(std::int64_t now) {
  take_posted();
  std::vector<std::pair<std::uint64_t, bool>> over;
  for (auto& [sequence, op] : in_flight_) {
    bool late = op->deadline().ns() <= now;
    if (late || op->cancel_asked()) over.emplace_back(sequence, late);
  }
  if (over.empty()) return;
  std::erase_if(waiting_,
                [now](Operation* op) { return op->deadline().ns() <= now || op->cancel_asked(); });
  for (auto& [sequence, late] : over) {
    auto error = late ? make_error(Code::kDeadlineExceeded,
                                   "the operation did not end in time; is the peer alive?")
                      : make_error(Code::kCancelled, "the caller gave the operation up");
    end(sequence, tl::unexpected<Error>(std::move(error)));
  }
}

void FakeLane::end_all(const Error& cause) {
  take_posted();
  waiting_.clear();
  completions_.clear();
  auto all = std::exchange(in_flight_, {});
  pending_.fetch_sub(all.size(), std::memory_order_relaxed);
  for (auto& [sequence, op] : all) op->finish(tl::unexpected<Error>(cause));
}

void FakeLane::break_up(const Error& cause, bool peer_gone) {
  {
    LockGuard guard(post_lock_);
    if (!cause_) cause_ = cause;
  }
  up_.store(false, std::memory_order_release);
  Dice::instance().broken_lanes.add();
  link_->break_up();
  end_all(cause);
  if (peer_gone) {
    peer_->peer_lost(cause);
  } else {
    peer_->lane_broken(*this, cause);
  }
}

}  // namespace ferry::fabric::fake
