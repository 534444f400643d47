#include <algorithm>

#include "ferry/mail/mail_core_internal.h"

// Messages that do not go out at once: queued ones, and large ones that are announced.

namespace ferry::mail {

namespace {
// What is kept of a message that waits, beside copies of its bytes: at most this, and this a part.
constexpr std::uint64_t kMailNote = 1024;
constexpr std::uint64_t kMailPartNote = 64;

std::uint64_t note_of(MailParts parts) { return kMailNote + kMailPartNote * parts.size(); }
}  // namespace

MailOutgoing* MailCore::new_outgoing(MailParts parts, std::uint64_t bytes, Deadline deadline,
                                     std::uint64_t cost) {
  if (spare_outgoing_.empty()) {
    outgoing_.push_back(std::make_unique<MailOutgoing>());
    spare_outgoing_.push_back(outgoing_.back().get());
  }
  auto* out = spare_outgoing_.back();
  spare_outgoing_.pop_back();
  out->parts.assign(parts.begin(), parts.end());
  out->bytes = bytes;
  out->cost = cost;
  kept_bytes_.fetch_add(cost, std::memory_order_relaxed);
  out->deadline = deadline;
  out->large = false;
  out->lost = false;
  out->error.reset();
  out->ending = false;
  out->held = true;
  out->ended.store(false, std::memory_order_relaxed);
  open_sends_.fetch_add(1, std::memory_order_relaxed);
  return out;
}

Result<MailSent> MailCore::send_queued(MailParts parts, std::uint64_t bytes, Deadline deadline) {
  auto cost = note_of(parts);
  if (!has_room(kept_bytes_, cost)) progress_locked();
  if (broken_) return tl::unexpected<Error>(*broken_);
  if (!has_room(kept_bytes_, cost)) return MailSent{nullptr, cost};
  auto* out = new_outgoing(parts, bytes, deadline, cost);
  share_all(*out);
  enqueue(out);
  return MailSent{out};
}

Result<MailSent> MailCore::send_large(MailParts parts, std::uint64_t bytes, Deadline deadline) {
  MailOutgoing* out = nullptr;
  std::vector<Place> places;
  {
    MailGuard guard(*this);
    if (kept_bytes_.load(std::memory_order_relaxed) != 0) progress_locked();
    if (broken_) return tl::unexpected<Error>(*broken_);
    places = find_places(parts);
    auto cost = note_of(parts);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i].how == Place::How::kCopy) cost += align_up(parts[i].size(), MailLimits::kAlign);
    if (!has_room(kept_bytes_, cost)) return MailSent{nullptr, cost};
    out = new_outgoing(parts, bytes, deadline, cost);
    share_all(*out);
  }
  out->large = true;
  auto prepared = prepare(*out, places);
  MailGuard guard(*this);
  if (!prepared || broken_) {
    end(*out, prepared ? *broken_ : prepared.error());
    return MailSent{out};
  }
  enqueue(out);
  return MailSent{out};
}

void MailCore::enqueue(MailOutgoing* out) {
  out->queued = true;
  queue_.push(out);
  if (out->deadline < first_expiry())
    first_expiry_.store(out->deadline.ns(), std::memory_order_relaxed);
  pump();
}

tl::unexpected<Error> MailCore::no_room(Code code, std::uint64_t lacks) const {
  return fail(
      code,
      "{} bytes are kept for messages to {} that wait to be sent, and {} more would be over "
      "the limit of {}: nothing was sent",
      kept_bytes_.load(std::memory_order_relaxed), channel_.peer_endpoint(), lacks,
      options_.send_bytes);
}

Result<MailOutgoing*> MailCore::send_when_room(MailParts parts, Deadline deadline,
                                               fabric::WaitMode mode) {
  for (bool last = false;;) {
    auto sent = FERRY_TRY(send(parts, deadline));
    if (sent.lacks == 0) return sent.out;
    if (last) return no_room(Code::kDeadlineExceeded, sent.lacks);
    auto room = [this, &sent] {
      return has_room(kept_bytes_, sent.lacks) || is_broken_.load(std::memory_order_relaxed);
    };
    last = !await(room, deadline, mode);
  }
}

std::optional<std::uint32_t> MailCore::free_index() const {
  for (std::uint32_t i = 0; i < announced_.size(); ++i)
    if (announced_[i] == nullptr) return i;
  return std::nullopt;
}

void MailCore::settle_words() {
  if (on_wire_.load(std::memory_order_relaxed) == 0) return;
  for (std::uint32_t i = 0; i < announced_.size() && !broken_; ++i) {
    auto value = __atomic_load_n(word_at(i), __ATOMIC_ACQUIRE);
    if (value == seen_[i].load(std::memory_order_relaxed)) continue;
    // Its bytes may land one by one, low ones first: until then the number is less.
    const auto* waiting = announced_[i];
    if (waiting != nullptr && value >> 16 < waiting->announcement.number) continue;
    seen_[i].store(value, std::memory_order_relaxed);
    settle_word(announced_[i], value);
  }
}

void MailCore::settle_word(MailOutgoing* waiting, std::uint64_t value) {
  auto word = MailWord::from_u64(value);
  if (!word || waiting == nullptr || word->number != waiting->announcement.number) {
    break_with(fail(Code::kDataLoss, "the peer at {} answers an announcement with {:#x}",
                    channel_.peer_endpoint(), value)
                   .value());
    return;
  }
  auto& out = *waiting;
  if (word->state != MailWord::State::kTaken) off_wire(out);
  std::optional<Error> error;
  if (word->state == MailWord::State::kRefused)
    error = fail(word->code, "the peer at {} has refused a message of {} bytes",
                 channel_.peer_endpoint(), out.bytes)
                .value();
  end(out, std::move(error));
}

void MailCore::off_wire(MailOutgoing& out) {
  announced_[out.announcement.index] = nullptr;
  out.on_wire = false;
  on_wire_.fetch_sub(1, std::memory_order_relaxed);
}

// The peer does not touch its memory any more, or holds it in place.
void MailCore::end(MailOutgoing& out, std::optional<Error> error) {
  if (out.ending) {
    recycle_if_over(out);
    return;
  }
  out.ending = true;
  out.error = std::move(error);
  if (out.regions.empty()) {
    mark_ended(out);
  } else {
    ending_.push_back(&out);
  }
}

void MailCore::mark_ended(MailOutgoing& out) {
  out.ended.store(true, std::memory_order_release);
  open_sends_.fetch_sub(1, std::memory_order_release);
  changed_ = true;
  recycle_if_over(out);
}

void MailCore::recycle_if_over(MailOutgoing& out) {
  if (out.on_wire || !out.ended.load(std::memory_order_relaxed)) return;
  for (auto index : out.buffers) unshare(index);
  out.buffers.clear();
  for (auto index : out.room_buffers) room_.shared().unshare(index, out.lost);
  out.room_buffers.clear();
  auto cost = std::exchange(out.cost, 0);
  kept_bytes_.fetch_sub(cost, std::memory_order_relaxed);
  changed_ = changed_ || cost != 0;
  if (!out.held) spare_outgoing_.push_back(&out);
}

// Lets go of registered memory, which waits for the peer, then says that the sends have ended.
void MailCore::end_rest() {
  std::vector<MailOutgoing*> ending;
  {
    LockGuard<SpinLock> guard(lock);
    ending.swap(ending_);
  }
  for (auto* out : ending) out->regions.clear();
  LockGuard<SpinLock> guard(lock);
  for (auto* out : ending) mark_ended(*out);
}

void MailCore::expire(MailOutgoing& out) {
  if (out.ending) return;
  if (out.queued) {
    queue_.remove(&out);
    out.queued = false;
    end(out, fail(Code::kDeadlineExceeded,
                  "the receiver at {} has not let go of earlier messages: nothing was sent",
                  channel_.peer_endpoint())
                 .value());
    return;
  }
  // The receiver sees why when it can read the memory no more.
  __atomic_store_n(word_at(out.announcement.index) + kGivenUpAt, out.announcement.number,
                   __ATOMIC_RELEASE);
  end(out, fail(Code::kDeadlineExceeded,
                "the receiver at {} has not taken a message of {} bytes that was announced",
                channel_.peer_endpoint(), out.bytes)
               .value());
}

// Whoever waits in the room sees to deadlines: nobody need ask for the end of a send.
void MailCore::expire_due() {
  MailGuard guard(*this);
  progress_locked();
  auto now = now_ns();
  auto first = kNoExpiry;
  auto look = [&](MailOutgoing& out) FERRY_REQUIRES(lock) {
    if (out.ending) return;
    if (out.deadline.ns() <= now) {
      expire(out);
    } else {
      first = std::min(first, out.deadline.ns());
    }
  };
  for (auto *out = queue_.front(), *next = out; out != nullptr; out = next) {
    next = out->next;
    look(*out);
  }
  for (auto* out : announced_)
    if (out != nullptr) look(*out);
  first_expiry_.store(first, std::memory_order_relaxed);
}

bool MailCore::poll_send(MailOutgoing* out) {
  progress();
  if (out->ended.load(std::memory_order_acquire)) return true;
  if (!out->deadline.expired()) return false;
  {
    MailGuard guard(*this);
    expire(*out);
  }
  return out->ended.load(std::memory_order_acquire);
}

void MailCore::wait_send(MailOutgoing* out, fabric::WaitMode mode) {
  auto ended = [out] { return out->ended.load(std::memory_order_acquire); };
  while (!poll_send(out)) await(ended, out->deadline, mode);
}

void MailCore::drop_send(MailOutgoing* out) {
  MailGuard guard(*this);
  out->held = false;
  if (out->ended.load(std::memory_order_relaxed)) recycle_if_over(*out);
}

Status MailCore::drain(Deadline deadline, fabric::WaitMode mode) {
  auto none = [this] { return open_sends_.load(std::memory_order_acquire) == 0; };
  for (;;) {
    progress();
    if (none()) return {};
    if (!await(none, deadline, mode))
      return fail(Code::kDeadlineExceeded, "{} messages to {} were not sent in time",
                  open_sends_.load(), channel_.peer_endpoint());
  }
}

}  // namespace ferry::mail
