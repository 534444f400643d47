// Data path.
#include <cstring>

#include "ferry/mail/mail_inbound_internal.h"

namespace ferry::mail {

Status MailInbound::take_batches() {
  if (!intact_) return {};
  auto taken = drain_arrivals();
  intact_ = taken.has_value();
  return taken;
}

Status MailInbound::drain_arrivals() {
  while (FERRY_TRY(arrivals_.arrived())) {
    auto taken = unpack_next_batch();
    arrivals_.watch();
    if (!taken) return taken;
  }
  return {};
}

Status MailInbound::unpack_next_batch() {
  const auto batch = FERRY_TRY(arrivals_.take());
  auto left = batch.bytes;
  for (std::uint32_t i = 0; i < batch.records; ++i) {
    const auto head = FERRY_TRY(MailHead::load(left));
    FERRY_TRY(take_record(head, left.subspan(MailHead::kBytes, head.body), batch.slot));
    left = left.subspan(MailHead::kBytes + head.body);
  }
  if (!left.empty())
    return fail(Code::kDataLoss, "a batch from {} with {} bytes behind its last record",
                path_.channel.peer_endpoint(), left.size());
  return arrivals_.release(batch.slot);
}

Status MailInbound::take_record(const MailHead& head, std::span<const std::byte> body,
                                const MailSlot& slot) {
  if (head.kind == MailKind::kAnnouncement) return take_announcement(head, body);
  auto* parcel = inbox_.make();
  if (auto loaded = load_eager(head, body, parcel->parts); !loaded) {
    inbox_.recycle(parcel);
    return loaded;
  }
  parcel->place = MailParcel::Place::kSlot;
  parcel->state = State::kWhole;
  parcel->slot = slot;
  for (const auto& part : parcel->parts) parcel->bytes += part.size();
  inbox_.push(parcel);
  arrivals_.hold(slot);
  return {};
}

Status MailInbound::take_announcement(const MailHead& head, std::span<const std::byte> body) {
  scratch_.resize(body.size());
  if (!body.empty()) std::memcpy(scratch_.data(), body.data(), body.size());
  auto* parcel = inbox_.make();
  auto& announcement = parcel->announcement;
  auto loaded = announcement.load(head, scratch_);
  if (loaded) loaded = answers_.accept(announcement);
  if (!loaded) {
    inbox_.recycle(parcel);
    return loaded;
  }
  parcel->place = MailParcel::Place::kRoom;
  parcel->state = State::kWaiting;
  parcel->bytes = announcement.total();
  parcel->span = announcement.span();
  if (parcel->bytes > path_.options.most_bytes) return refuse(parcel, Code::kOutOfRange);
  inbox_.push(parcel);
  return begin_announced(*parcel);
}

Status MailInbound::begin_announced(MailParcel& parcel) {
  const bool mappable = path_.maps && parcel.announcement.mappable;
  const bool unknown = mappable && !maps_.new_regions(parcel.announcement).empty();
  if (mappable && !unknown && maps_.use_in_place(parcel))
    return answers_.answer(parcel.announcement, MailWord::State::kTaken);
  parcel.landed.store(0, std::memory_order_relaxed);
  reads_.add(&parcel);
  if (unknown) {
    parcel.state = State::kMapping;
    maps_.add_waiting(&parcel);
  }
  return {};
}

Status MailInbound::refuse(MailParcel* parcel, Code code) {
  ++refused_;
  auto told = answers_.answer(parcel->announcement, MailWord::State::kRefused, code);
  inbox_.recycle(parcel);
  return told;
}

Status MailInbound::finish_mapping(const MailMapping& mapping, const std::optional<Error>& broken) {
  maps_.finish(mapping);
  auto& parcel = *mapping.parcel;
  if (parcel.state != State::kMapping) return {};  // it has failed meanwhile
  if (maps_.use_in_place(parcel)) {
    reads_.remove(parcel);
    return answers_.answer(parcel.announcement, MailWord::State::kTaken);
  }
  parcel.state = State::kWaiting;
  if (broken) reads_.fail_parcel(parcel, *broken);
  return {};
}

MailParcel* MailInbound::take_next(bool begun) {
  const auto* front = inbox_.front();
  const bool there = front != nullptr &&
                     (front->state == State::kWhole || (begun && front->state == State::kReading));
  if (!there) return nullptr;
  auto* parcel = inbox_.pop();
  parcel->handed_out = true;
  parcel->number = ++received_;
  in_place_ += parcel->place == MailParcel::Place::kSender ? 1 : 0;
  return parcel;
}

Status MailInbound::release(MailParcel* parcel) {
  Status told;
  if (parcel->place == MailParcel::Place::kSlot) {
    told = arrivals_.release(parcel->slot);
  } else if (parcel->place == MailParcel::Place::kSender) {
    told = answers_.answer(parcel->announcement, MailWord::State::kDone);
  }
  inbox_.recycle(parcel);
  return told;
}

void MailInbound::update_front(bool broken) {
  const auto* front = inbox_.front();
  const bool whole = (broken && is_over()) || (front != nullptr && front->state == State::kWhole);
  const bool begun = whole || (front != nullptr && front->state == State::kReading);
  if (whole == signals_.ready.load(std::memory_order_relaxed) &&
      begun == signals_.begun.load(std::memory_order_relaxed))
    return;
  if (begun) inbox_.note_change();
  signals_.ready.store(whole, std::memory_order_release);
  signals_.begun.store(begun, std::memory_order_release);
}

void MailInbound::add_to(MailStats& stats) const {
  stats.received = received_;
  stats.in_place = in_place_;
  stats.heard = answers_.heard();
  stats.reads = reads_.chunks();
  stats.refused = refused_ + reads_.refused();
}

}  // namespace ferry::mail
