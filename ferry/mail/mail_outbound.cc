// Data path.
#include <algorithm>

#include "ferry/mail/mail_outbound_internal.h"

namespace ferry::mail {

std::uint64_t MailOutbound::note_bytes(MailParts parts) {
  constexpr std::uint64_t kNote = 1024;  // at most, and this a part
  constexpr std::uint64_t kPartNote = 64;
  return kNote + kPartNote * parts.size();
}

MailOutgoing* MailOutbound::begin(MailParts parts, std::uint64_t bytes, Deadline deadline,
                                  std::uint64_t cost, bool large) {
  if (spare_.empty()) {
    all_.push_back(std::make_unique<MailOutgoing>());
    spare_.push_back(all_.back().get());
  }
  auto* out = spare_.back();
  spare_.pop_back();
  out->parts.assign(parts.begin(), parts.end());
  out->bytes = bytes;
  out->cost = cost;
  signals_.kept_bytes.fetch_add(cost, std::memory_order_relaxed);
  out->deadline = deadline;
  out->large = large;
  out->phase = Phase::kPreparing;
  out->wire = Wire::kOff;
  out->error.reset();
  out->held = true;
  out->ended.store(false, std::memory_order_relaxed);
  signals_.open_sends.fetch_add(1, std::memory_order_relaxed);
  buffers_.share(*out);
  return out;
}

Status MailOutbound::enqueue(MailOutgoing* out) {
  out->phase = Phase::kQueued;
  queue_.push(out);
  if (out->deadline.ns() < signals_.first_expiry.load(std::memory_order_relaxed))
    signals_.first_expiry.store(out->deadline.ns(), std::memory_order_relaxed);
  return pump();
}

bool MailOutbound::add_to_batch(MailOpenBatch& batch, MailOutgoing& out) {
  if (!out.large) {
    if (eager_record_bytes(out.parts) > batch.room()) return false;
    batch.add(store_eager(batch.end(), out.parts));
    stats_.eager_bytes += out.bytes;
    queue_.pop();
    end(out, std::nullopt);
    return true;
  }
  const auto index = free_index();
  if (!index || out.announcement.record_bytes() > batch.room()) return false;
  out.announcement.number = ++announcements_;
  out.announcement.index = *index;
  out.announcement.store(batch.end());
  batch.add(out.announcement.record_bytes());
  queue_.pop();
  announced_[*index] = &out;
  out.phase = Phase::kAnnounced;
  out.wire = Wire::kOn;
  signals_.on_wire.fetch_add(1, std::memory_order_relaxed);
  ++stats_.announced;
  return true;
}

Status MailOutbound::pump() {
  signals_.blocked.store(false, std::memory_order_relaxed);
  while (!queue_.empty()) {
    auto* front = queue_.front();
    if (front->deadline.expired()) {
      expire(*front);
      continue;
    }
    if (front->large && !free_index()) return {};  // the answer that frees one brings us back
    if (!FERRY_TRY(writer_.slot_free()) && !FERRY_TRY(writer_.block_on_slot())) return {};
    auto batch = writer_.open();
    while (!queue_.empty() && add_to_batch(batch, *queue_.front())) {
    }
    if (batch.head.records != 0) FERRY_TRY(close(batch));
  }
  return {};
}

std::optional<std::uint32_t> MailOutbound::free_index() const {
  for (std::uint32_t i = 0; i < announced_.size(); ++i)
    if (announced_[i] == nullptr) return i;
  return std::nullopt;
}

Status MailOutbound::progress() {
  if (signals_.on_wire.load(std::memory_order_relaxed) != 0) {
    for (std::uint32_t i = 0; i < announced_.size(); ++i) {
      const auto value = words_.answer(i);
      if (value == signals_.seen[i].load(std::memory_order_relaxed)) continue;
      // Its bytes may land one by one, low ones first: until then the number is less.
      auto* waiting = announced_[i];
      if (waiting != nullptr && value >> 16 < waiting->announcement.number) continue;
      signals_.seen[i].store(value, std::memory_order_relaxed);
      FERRY_TRY(take_answer(waiting, value));
    }
  }
  return writer_.check_writes();
}

Status MailOutbound::take_answer(MailOutgoing* waiting, std::uint64_t value) {
  const auto word = MailWord::from_u64(value);
  if (!word || waiting == nullptr || word->number != waiting->announcement.number)
    return fail(Code::kDataLoss, "the peer at {} answers an announcement with {:#x}",
                path_.channel.peer_endpoint(), value);
  auto& out = *waiting;
  if (word->state != MailWord::State::kTaken) take_off_wire(out, Wire::kOff);
  std::optional<Error> error;
  if (word->state == MailWord::State::kRefused)
    error = fail(word->code, "the peer at {} has refused a message of {} bytes",
                 path_.channel.peer_endpoint(), out.bytes)
                .value();
  end(out, std::move(error));
  return {};
}

void MailOutbound::take_off_wire(MailOutgoing& out, Wire wire) {
  announced_[out.announcement.index] = nullptr;
  out.wire = wire;
  signals_.on_wire.fetch_sub(1, std::memory_order_relaxed);
}

void MailOutbound::end(MailOutgoing& out, std::optional<Error> error) {
  if (out.is_over()) {  // an answer that frees the memory of a send that has ended before
    recycle_if_over(out);
    return;
  }
  out.phase = Phase::kEnding;
  out.error = std::move(error);
  if (out.regions.empty()) {
    mark_ended(out);
  } else {
    ending_.push_back(&out);
  }
}

void MailOutbound::mark_ended(MailOutgoing& out) {
  out.phase = Phase::kEnded;
  out.ended.store(true, std::memory_order_release);
  signals_.open_sends.fetch_sub(1, std::memory_order_release);
  changed_ = true;
  recycle_if_over(out);
}

void MailOutbound::recycle_if_over(MailOutgoing& out) {
  if (out.wire == Wire::kOn || out.phase != Phase::kEnded) return;
  buffers_.unshare_all(out);
  const auto cost = std::exchange(out.cost, 0);
  signals_.kept_bytes.fetch_sub(cost, std::memory_order_relaxed);
  changed_ = changed_ || cost != 0;
  if (!out.held) spare_.push_back(&out);
}

void MailOutbound::expire(MailOutgoing& out) {
  if (out.is_over()) return;
  if (out.phase == Phase::kQueued) {
    queue_.remove(&out);
    end(out, fail(Code::kDeadlineExceeded,
                  "the receiver at {} has not let go of earlier messages: nothing was sent",
                  path_.channel.peer_endpoint())
                 .value());
    return;
  }
  words_.give_up(out.announcement.index, out.announcement.number);
  end(out, fail(Code::kDeadlineExceeded,
                "the receiver at {} has not taken a message of {} bytes that was announced",
                path_.channel.peer_endpoint(), out.bytes)
               .value());
}

void MailOutbound::expire_due() {
  const auto now = now_ns();
  auto first = MailOutSignals::kNoExpiry;
  auto look = [&](MailOutgoing& out) {
    if (out.is_over()) return;
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
  signals_.first_expiry.store(first, std::memory_order_relaxed);
}

void MailOutbound::end_all(const Error& error) {
  while (!queue_.empty()) end(*queue_.pop(), error);
  for (auto* out : announced_) {
    if (out == nullptr) continue;
    take_off_wire(*out, Wire::kLost);
    end(*out, error);
  }
}

}  // namespace ferry::mail
