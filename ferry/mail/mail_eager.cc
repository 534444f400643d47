// Data path.
#include "ferry/mail/mail_core_internal.h"

// Batches: small messages and announcements, in slots of the receiver.

namespace ferry::mail {

bool MailCore::is_eager(MailParts parts, std::uint64_t bytes) const {
  return bytes <= tuning_.eager_threshold() &&
         eager_record_bytes(parts) <= batch_body_ - MailBatch::kBytes;
}

Result<MailSent> MailCore::send(MailParts parts, Deadline deadline) {
  if (parts.size() > MailLimits::kParts)
    return fail(Code::kInvalidArgument, "a message of {} parts; {} is the most", parts.size(),
                MailLimits::kParts);
  std::uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  if (bytes > peer_.most_bytes)
    return fail(Code::kOutOfRange, "a message of {} bytes; the peer at {} takes {} at most", bytes,
                channel_.peer_endpoint(), peer_.most_bytes);
  if (!is_eager(parts, bytes)) return send_large(parts, bytes, deadline);
  MailGuard guard(*this);
  if (queue_.empty() && !broken_ && slot_free()) {
    auto batch = open_batch();
    batch.add(store_eager(batch.end(), parts));
    stats_.eager_bytes += bytes;
    close_batch(batch);
    if (!broken_) return MailSent{};
  }
  if (broken_) return tl::unexpected<Error>(*broken_);
  return send_queued(parts, bytes, deadline);
}

bool MailCore::slot_free() {
  auto free = launch_.free();
  if (!free) break_with(free.error());
  if (!free || !*free) return false;
  return maps_ || !staged_[stage_].writing.load(std::memory_order_acquire);
}

MailCore::Batch MailCore::open_batch() {
  if (maps_) return {launch_.body(), {}};
  return {staging_.bytes().subspan(stage_ * batch_body_, batch_body_), {}};
}

void MailCore::close_batch(Batch& batch) {
  batch.head.store(batch.body.data());
  ++stats_.batches;
  stats_.sent += batch.head.records;
  if (maps_) {
    if (auto published = launch_.publish(); !published) break_with(published.error());
    return;
  }
  auto* stage = &staged_[stage_];
  stage_ = stage_ + 1 == stages_ ? 0 : stage_ + 1;
  stage->writing.store(true, std::memory_order_relaxed);
  ++writes_posted_;
  auto ended = [this, stage](const Status& status) {
    if (!status) {
      stage->error = status.error();
      bad_writes_.fetch_add(1, std::memory_order_release);
    }
    stage->writing.store(false, std::memory_order_release);
    writes_ended_.fetch_add(1, std::memory_order_release);
  };
  auto bytes = batch.body.first(MailBatch::kBytes + batch.head.bytes);
  stage->transfer = launch_.write(bytes, 0, {.callback = ended, .pace = fabric::Pace::kLateEnd});
}

// Whatever waits and fits goes into one batch.
bool MailCore::add_to_batch(Batch& batch, MailOutgoing& out) {
  if (!out.large) {
    if (eager_record_bytes(out.parts) > batch.room()) return false;
    batch.add(store_eager(batch.end(), out.parts));
    stats_.eager_bytes += out.bytes;
    queue_.pop()->queued = false;
    end(out, std::nullopt);
    return true;
  }
  auto index = free_index();
  if (!index || out.announcement.record_bytes() > batch.room()) return false;
  out.announcement.number = ++announcements_;
  out.announcement.index = *index;
  out.announcement.store(batch.end());
  batch.add(out.announcement.record_bytes());
  announced_[*index] = &out;
  queue_.pop()->queued = false;
  out.on_wire = true;
  on_wire_.fetch_add(1, std::memory_order_relaxed);
  ++stats_.announced;
  return true;
}

void MailCore::pump() {
  out_blocked_.store(false, std::memory_order_relaxed);
  while (!queue_.empty() && !broken_) {
    auto* front = queue_.front();
    if (front->deadline.expired()) {
      expire(*front);
      continue;
    }
    if (front->large && !free_index()) return;  // the word that frees one brings us back
    if (!slot_free()) {
      if (broken_ || !block_on_slot()) return;
    }
    auto batch = open_batch();
    while (!queue_.empty() && add_to_batch(batch, *queue_.front())) {
    }
    if (batch.head.records != 0) close_batch(batch);
  }
}

// Says what the queue waits for, then looks once more. True: the slot is free after all.
bool MailCore::block_on_slot() {
  out_word_.store(launch_.free_word(), std::memory_order_relaxed);
  out_busy_.store(launch_.busy_value(), std::memory_order_relaxed);
  if (!maps_) out_stage_.store(&staged_[stage_], std::memory_order_relaxed);
  out_blocked_.exchange(true, std::memory_order_seq_cst);
  if (!slot_free()) return false;
  out_blocked_.store(false, std::memory_order_relaxed);
  return true;
}

void MailCore::check_writes() {
  if (bad_writes_.load(std::memory_order_acquire) == 0) return;
  bad_writes_.store(0, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < stages_; ++i)
    if (!staged_[i].writing.load(std::memory_order_acquire) && staged_[i].error)
      break_with(*staged_[i].error);
}

void MailCore::take_batches() {
  taking_ = true;
  Status taken;
  for (;;) {
    auto arrived = landing_.arrived();
    if (arrived && !*arrived) break;
    taken = arrived ? take_batch() : Status(tl::unexpected<Error>(arrived.error()));
    watch_landing();
    if (!taken) break;
  }
  if (!taken) break_with(taken.error());
  taking_ = false;
}

Status MailCore::take_batch() {
  std::span<const std::byte> body = landing_.body();
  auto batch = FERRY_TRY(MailBatch::load(body));
  MailSlot slot{landing_.slot(), FERRY_TRY(landing_.take())};
  slot_holds_[slot.index] = 1;
  auto left = body.subspan(MailBatch::kBytes, batch.bytes);
  for (std::uint32_t i = 0; i < batch.records; ++i) {
    auto head = FERRY_TRY(MailHead::load(left));
    FERRY_TRY(take_record(head, left.subspan(MailHead::kBytes, head.body), slot));
    left = left.subspan(MailHead::kBytes + head.body);
  }
  if (!left.empty())
    return fail(Code::kDataLoss, "a batch from {} with {} bytes behind its last record",
                channel_.peer_endpoint(), left.size());
  return hold_slot(slot, -1);
}

Status MailCore::take_record(const MailHead& head, std::span<const std::byte> body,
                             const MailSlot& slot) {
  if (head.kind == MailKind::kAnnouncement) return take_announcement(head, body);
  auto* parcel = new_parcel();
  if (auto loaded = load_eager(head, body, parcel->parts); !loaded) {
    recycle(parcel);
    return loaded;
  }
  parcel->place = MailParcel::Place::kSlot;
  parcel->state = MailParcel::State::kWhole;
  parcel->slot = slot;
  for (const auto& part : parcel->parts) parcel->bytes += part.size();
  deliver(parcel);
  return hold_slot(slot, 1);
}

// The slot is the sender's again when no message in it is held. The sender hears of it with what
// goes that way next, unless it may be short of slots.
Status MailCore::hold_slot(const MailSlot& slot, int by) {
  auto& holds = slot_holds_[slot.index];
  holds += static_cast<std::uint32_t>(by);
  if (holds != 0 || peer_closed()) return {};
  bool plenty = landing_.expected() - slot.sequence < landing_.layout().slots / 4;
  return landing_.acknowledge(slot.index, slot.sequence,
                              plenty ? fabric::Pace::kLate : fabric::Pace::kLateEnd);
}

void MailCore::watch_landing() {
  in_word_.store(landing_.flag_word(), std::memory_order_relaxed);
  in_idle_.store(landing_.before(), std::memory_order_relaxed);
}

}  // namespace ferry::mail
