#include <cstring>

#include "ferry/mail/mail_core_internal.h"

// Messages of the peer's: announcements, use in place, what the program takes and lets go of.

namespace ferry::mail {

namespace {
constexpr std::uint64_t kAllLanded = ~std::uint64_t{0};
}  // namespace

MailParcel* MailCore::new_parcel() {
  if (spare_parcels_.empty()) {
    parcels_.push_back(std::make_unique<MailParcel>());
    spare_parcels_.push_back(parcels_.back().get());
  }
  auto* parcel = spare_parcels_.back();
  spare_parcels_.pop_back();
  parcel->handed_out = parcel->let_go = parcel->in_reading = parcel->busy = false;
  parcel->bytes = 0;
  parcel->error.reset();
  parcel->failed.store(false, std::memory_order_relaxed);
  parcel->landed.store(kAllLanded, std::memory_order_relaxed);
  return parcel;
}

void MailCore::recycle(MailParcel* parcel) {
  give_back(*parcel);
  spare_parcels_.push_back(parcel);
}

void MailCore::deliver(MailParcel* parcel) { inbox_.push(parcel); }

Status MailCore::store_word(const MailParcel& parcel, MailWord::State state, Code code) {
  const auto& announcement = parcel.announcement;
  if (state != MailWord::State::kTaken) index_in_use_[announcement.index] = false;
  if (peer_closed()) return {};  // nobody is there to be told
  return peer_words_[announcement.index].store(MailWord{announcement.number, state, code}.to_u64());
}

Status MailCore::check_turn(const Announcement& announcement) const {
  if (announcement.number != heard_ + 1)
    return fail(Code::kDataLoss, "{} announces message {} where {} is next",
                channel_.peer_endpoint(), announcement.number, heard_ + 1);
  if (announcement.index >= peer_.rendezvous || index_in_use_[announcement.index])
    return fail(Code::kDataLoss, "{} announces message {} with index {}, which is in use or none",
                channel_.peer_endpoint(), announcement.number, announcement.index);
  return {};
}

Status MailCore::take_announcement(const MailHead& head, std::span<const std::byte> body) {
  scratch_.resize(body.size());
  if (!body.empty()) std::memcpy(scratch_.data(), body.data(), body.size());
  auto* parcel = new_parcel();
  parcel->place = MailParcel::Place::kRoom;
  parcel->state = MailParcel::State::kWaiting;
  auto& announcement = parcel->announcement;
  auto loaded = announcement.load(head, scratch_);
  if (auto fits = loaded ? check_turn(announcement) : loaded; !fits) {
    recycle(parcel);
    return fits;
  }
  ++heard_;
  index_in_use_[announcement.index] = true;
  parcel->bytes = announcement.total();
  parcel->span = announcement.span();
  if (parcel->bytes > options_.most_bytes) return refuse(parcel, Code::kOutOfRange);
  deliver(parcel);
  bool mappable = maps_ && announcement.mappable;
  bool unknown = mappable && !new_regions(announcement).empty();
  if (mappable && !unknown && use_in_place(*parcel))
    return store_word(*parcel, MailWord::State::kTaken);
  parcel->landed.store(0, std::memory_order_relaxed);
  parcel->in_reading = true;
  reading_.push_back(parcel);
  if (unknown) {
    parcel->state = MailParcel::State::kMapping;
    to_map_.push_back(parcel);
  }
  return {};
}

Status MailCore::refuse(MailParcel* parcel, Code code) {
  ++stats_.refused;
  auto stored = store_word(*parcel, MailWord::State::kRefused, code);
  recycle(parcel);
  return stored;
}

std::optional<std::span<std::byte>> MailCore::mapped_piece(const Announcement::Piece& piece,
                                                           std::uint64_t bytes) {
  auto found = maps_by_key_.find(piece.region.key);
  if (found == maps_by_key_.end()) return std::nullopt;
  auto memory = found->second;
  if (piece.offset > memory.size() || bytes > memory.size() - piece.offset) return std::nullopt;
  return memory.subspan(piece.offset, bytes);
}

// What of its memory was never looked at.
std::vector<fabric::RemoteRegion> MailCore::new_regions(const Announcement& announcement) {
  std::vector<fabric::RemoteRegion> regions;
  for (const auto& piece : announcement.pieces)
    if (!maps_by_key_.contains(piece.region.key)) regions.push_back(piece.region);
  return regions;
}

// The first look at a region may ask the peer, which can take a second to prove a liar: one message
// at a time, and no further than its first region that is not there.
void MailCore::map_regions() {
  MailParcel* parcel = nullptr;
  std::vector<fabric::RemoteRegion> regions;
  {
    LockGuard<SpinLock> guard(lock);
    if (to_map_.empty()) return;
    parcel = to_map_.front();
    to_map_.erase(to_map_.begin());
    parcel->busy = true;
    regions = new_regions(parcel->announcement);
  }
  std::vector<std::pair<std::uint64_t, std::span<std::byte>>> found;
  for (const auto& region : regions) {
    auto mapped = channel_.map(region);
    if (!mapped) break;
    found.emplace_back(region.key, *mapped);
  }
  LockGuard<SpinLock> guard(lock);
  maps_by_key_.insert(found.begin(), found.end());
  parcel->busy = false;
  settle_mapping(*parcel);
}

void MailCore::settle_mapping(MailParcel& parcel) {
  if (parcel.state != MailParcel::State::kMapping) return;  // it has failed meanwhile
  if (!use_in_place(parcel)) {
    parcel.state = MailParcel::State::kWaiting;
    if (broken_) fail_parcel(parcel, *broken_);
    return;
  }
  std::erase(reading_, &parcel);
  parcel.in_reading = false;
  if (auto told = store_word(parcel, MailWord::State::kTaken); !told) break_with(told.error());
}

// False: it is to be read; what is wrong with it shows then.
bool MailCore::use_in_place(MailParcel& parcel) {
  const auto& announcement = parcel.announcement;
  parcel.parts.clear();
  std::uint32_t part = 0;
  for (const auto& piece : announcement.pieces) {
    auto mapped = mapped_piece(piece, announcement.span_of(part, piece.parts));
    if (!mapped) return false;
    std::uint64_t at = 0;
    for (std::uint32_t i = 0; i < piece.parts; ++i, ++part) {
      at = align_up(at, MailLimits::kAlign);
      parcel.parts.push_back(mapped->subspan(at, announcement.sizes[part]));
      at += announcement.sizes[part];
    }
  }
  parcel.place = MailParcel::Place::kSender;
  parcel.state = MailParcel::State::kWhole;
  parcel.landed.store(kAllLanded, std::memory_order_release);
  return true;
}

void MailCore::give_back(MailParcel& parcel) {
  if (parcel.buffer.bytes.empty()) return;
  room_.give(std::exchange(parcel.buffer, {}).index);
  changed_ = true;  // somebody may wait for the room
}

void MailCore::fail_parcel(MailParcel& parcel, const Error& error) {
  parcel.state = MailParcel::State::kFailed;
  parcel.error = error;
  parcel.failed.store(true, std::memory_order_release);
  changed_ = true;
  std::erase(to_map_, &parcel);
  for (auto i = parcel.reaped; i < parcel.posted; ++i)
    unplan(parcel.chunks[i % parcel.most_chunks]);
}

// It does not come, and those behind it do.
void MailCore::drop_parcel(MailParcel& parcel, const Error& error) {
  using State = MailParcel::State;
  if (parcel.state == State::kFailed || parcel.state == State::kWhole) return;
  fail_parcel(parcel, error);
  if (parcel.handed_out || parcel.let_go) return;
  inbox_.remove(&parcel);
  parcel.let_go = true;
}

Status MailCore::let_go(MailParcel* parcel) {
  MailGuard guard(*this);
  if (parcel->in_reading) {
    parcel->let_go = true;
    continue_reads();
    update_front();
    return {};
  }
  Status told;
  if (parcel->place == MailParcel::Place::kSlot) {
    told = hold_slot(parcel->slot, -1);
  } else if (parcel->place == MailParcel::Place::kSender) {
    told = store_word(*parcel, MailWord::State::kDone);
  }
  recycle(parcel);
  return told;
}

void MailCore::update_front() {
  using State = MailParcel::State;
  const auto* front = inbox_.front();
  bool whole = over() || (front != nullptr && front->state == State::kWhole);
  bool begun = whole || (front != nullptr && front->state == State::kReading);
  if (whole != ready_.load(std::memory_order_relaxed) ||
      begun != begun_.load(std::memory_order_relaxed)) {
    changed_ = changed_ || whole || begun;
    ready_.store(whole, std::memory_order_release);
    begun_.store(begun, std::memory_order_release);
  }
}

Result<MailParcel*> MailCore::take_next(bool begun) {
  MailGuard guard(*this);
  progress_locked();
  auto* front = inbox_.front();
  using State = MailParcel::State;
  bool there = front != nullptr &&
               (front->state == State::kWhole || (begun && front->state == State::kReading));
  if (there) {
    inbox_.pop();
    front->handed_out = true;
    front->number = ++stats_.received;
    stats_.in_place += front->place == MailParcel::Place::kSender ? 1 : 0;
    update_front();
    return front;
  }
  if (over()) return tl::unexpected<Error>(*broken_);
  return nullptr;
}

Result<MailParcel*> MailCore::wait_next(bool begun, Deadline deadline, fabric::WaitMode mode) {
  const auto& flag = begun ? begun_ : ready_;
  auto there = [&flag] { return flag.load(std::memory_order_acquire); };
  for (bool last = false;;) {
    if (auto* parcel = FERRY_TRY(take_next(begun))) return parcel;
    if (last)
      return fail(Code::kDeadlineExceeded, "no message came from {} in time",
                  channel_.peer_endpoint());
    last = !await(there, deadline, mode);
  }
}

Status MailCore::wait_landed(MailParcel& parcel, std::uint64_t span, Deadline deadline,
                             fabric::WaitMode mode) {
  auto there = [this, &parcel, span] { return reached(parcel, span); };
  for (bool last = false;;) {
    if (parcel.landed.load(std::memory_order_acquire) >= span) return {};
    if (parcel.failed.load(std::memory_order_acquire)) {
      MailGuard guard(*this);
      return tl::unexpected<Error>(*parcel.error);
    }
    if (last)
      return fail(Code::kDeadlineExceeded, "a message from {} did not land in time",
                  channel_.peer_endpoint());
    last = !await(there, deadline, mode);
    progress();
  }
}

}  // namespace ferry::mail
