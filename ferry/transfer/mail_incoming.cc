#include <algorithm>
#include <cstring>

#include "ferry/transfer/mail_core_internal.h"

// Large messages of the peer's: used where they are, or read in chunks into memory of the room.

namespace ferry::transfer {

namespace {
constexpr std::uint64_t kAllLanded = ~std::uint64_t{0};
constexpr std::uint64_t kPeerGivenUpAt = 8;  // in a rendezvous line
}  // namespace

MailParcel* MailCore::new_parcel() {
  if (spare_parcels_.empty()) {
    parcels_.push_back(std::make_unique<MailParcel>());
    spare_parcels_.push_back(parcels_.back().get());
  }
  auto* parcel = spare_parcels_.back();
  spare_parcels_.pop_back();
  parcel->handed_out = parcel->let_go = parcel->in_reading = false;
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
  return peer_words_[announcement.index].store(MailWord{announcement.number, state, code}.to_u64());
}

Status MailCore::take_announcement(const MailHead& head, std::span<const std::byte> body) {
  scratch_.resize(body.size());
  if (!body.empty()) std::memcpy(scratch_.data(), body.data(), body.size());
  auto* parcel = new_parcel();
  parcel->place = MailParcel::Place::kRoom;
  parcel->state = MailParcel::State::kWaiting;
  auto& announcement = parcel->announcement;
  auto loaded = announcement.load(head, scratch_);
  bool fits = loaded && announcement.number == heard_ + 1 &&
              announcement.index < peer_.rendezvous && !index_in_use_[announcement.index];
  if (!fits) {
    recycle(parcel);
    FERRY_TRY(std::move(loaded));
    return fail(Code::kDataLoss, "{} announces message {} where {} is next, or twice with index {}",
                channel_.peer_endpoint(), announcement.number, heard_ + 1, announcement.index);
  }
  ++heard_;
  index_in_use_[announcement.index] = true;
  parcel->bytes = announcement.total();
  parcel->span = announcement.span();
  if (parcel->bytes > options_.most_bytes) return refuse(parcel, Code::kOutOfRange);
  deliver(parcel);
  if (maps_ && announcement.mappable && use_in_place(*parcel))
    return store_word(*parcel, MailWord::State::kTaken);
  parcel->landed.store(0, std::memory_order_relaxed);
  parcel->in_reading = true;
  reading_.push_back(parcel);
  return {};
}

Status MailCore::refuse(MailParcel* parcel, Code code) {
  ++stats_.refused;
  auto stored = store_word(*parcel, MailWord::State::kRefused, code);
  recycle(parcel);
  return stored;
}

Result<std::span<std::byte>> MailCore::map_piece(const Announcement::Piece& piece,
                                                 std::uint64_t bytes) {
  auto found = maps_by_key_.find(piece.region.key);
  if (found == maps_by_key_.end())
    found = maps_by_key_.emplace(piece.region.key, FERRY_TRY(channel_.map(piece.region))).first;
  auto memory = found->second;
  if (piece.offset > memory.size() || bytes > memory.size() - piece.offset)
    return fail(Code::kDataLoss, "{} granted less than it announced", channel_.peer_endpoint());
  return memory.subspan(piece.offset, bytes);
}

// False: it is to be read; what is wrong with it shows then.
bool MailCore::use_in_place(MailParcel& parcel) {
  const auto& announcement = parcel.announcement;
  parcel.parts.clear();
  std::uint32_t part = 0;
  for (const auto& piece : announcement.pieces) {
    auto mapped = map_piece(piece, announcement.span_of(part, piece.parts));
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
  return true;
}

void MailCore::continue_reads() {
  reads_seen_.store(reads_ended_.load(std::memory_order_acquire), std::memory_order_relaxed);
  turn_.store(false, std::memory_order_seq_cst);
  more_.store(false, std::memory_order_relaxed);
  bool in_line = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < reading_.size(); ++i) {
    auto* parcel = reading_[i];
    if (step(*parcel, in_line)) {
      reading_[kept++] = parcel;
      continue;
    }
    parcel->in_reading = false;
    if (parcel->let_go) {
      recycle(parcel);
    } else if (parcel->state == MailParcel::State::kFailed && !parcel->handed_out) {
      give_back(*parcel);
    }
  }
  reading_.resize(kept);
}

void MailCore::give_back(MailParcel& parcel) {
  if (parcel.buffer.bytes.empty()) return;
  room_.give(std::exchange(parcel.buffer, {}).index);
  changed_ = true;  // somebody may wait for the room
}

// False: there is nothing more to do for it.
bool MailCore::step(MailParcel& parcel, bool& in_line) {
  using State = MailParcel::State;
  if (parcel.state == State::kWaiting && !admit(parcel, in_line))
    return parcel.state == State::kWaiting;
  reap(parcel);
  if (parcel.state == State::kReading && !parcel.error && !parcel.let_go) post_chunks(parcel);
  if (parcel.posted != parcel.reaped) return true;
  if (parcel.state == State::kAsking) {
    hear_answer(parcel);
    return false;
  }
  if (parcel.state != State::kReading) return false;
  if (parcel.error) {
    ask_if_given_up(parcel);
    return true;
  }
  bool read = parcel.piece == parcel.announcement.pieces.size();
  if (!read && !parcel.let_go) return true;
  read_over(parcel);
  return false;
}

// Gets memory for it, in turn with all mailboxes.
bool MailCore::admit(MailParcel& parcel, bool& in_line) {
  if (in_line) return false;
  auto taken = room_.take(*this, parcel.span);
  if (!taken) {
    inbox_.remove(&parcel);
    parcel.let_go = true;
    parcel.state = MailParcel::State::kFailed;
    ++stats_.refused;
    if (auto told = store_word(parcel, MailWord::State::kRefused, taken.error().code()); !told)
      break_with(told.error());
    return false;
  }
  in_line = !taken->has_value();
  if (in_line) return false;
  changed_ = true;  // the next in line may ask
  parcel.buffer = **taken;
  parcel.state = MailParcel::State::kReading;
  parcel.piece = 0;
  parcel.first_part = 0;
  parcel.piece_at = parcel.piece_done = parcel.posted = parcel.reaped = 0;
  if (parcel.chunks == nullptr)
    parcel.chunks = std::make_unique<MailChunk[]>(options_.chunks_in_flight);
  parcel.parts.clear();
  std::uint64_t at = 0;
  for (auto size : parcel.announcement.sizes) {
    at = align_up(at, MailLimits::kAlign);
    parcel.parts.push_back(parcel.buffer.bytes.subspan(at, size));
    at += size;
  }
  return true;
}

void MailCore::post_chunks(MailParcel& parcel) {
  const auto& announcement = parcel.announcement;
  auto burst = options_.chunks_in_flight;
  while (parcel.piece < announcement.pieces.size() && !parcel.error) {
    const auto& piece = announcement.pieces[parcel.piece];
    auto span = announcement.span_of(parcel.first_part, piece.parts);
    if (parcel.piece_done == span) {
      parcel.piece_at = align_up(parcel.piece_at + span, MailLimits::kAlign);
      parcel.first_part += piece.parts;
      parcel.piece_done = 0;
      ++parcel.piece;
      continue;
    }
    if (parcel.posted - parcel.reaped == options_.chunks_in_flight) return;
    if (burst-- == 0) {
      more_.store(true, std::memory_order_release);
      return;
    }
    auto bytes = std::min(options_.chunk_bytes, span - parcel.piece_done);
    auto at = parcel.piece_at + parcel.piece_done;
    ++stats_.reads;
    post_read(parcel, parcel.buffer.bytes.subspan(at, bytes),
              {piece.region, piece.offset + parcel.piece_done}, at + bytes);
    parcel.piece_done += bytes;
    reap(parcel);  // where the path copies at once
  }
}

void MailCore::post_read(MailParcel& parcel, std::span<std::byte> to, const fabric::RemoteAt& from,
                         std::uint64_t end) {
  auto* chunk = &parcel.chunks[parcel.posted++ % options_.chunks_in_flight];
  chunk->error.reset();
  chunk->end = end;
  chunk->ended.store(false, std::memory_order_relaxed);
  ++reads_posted_;
  auto ended = [this, chunk](const Status& status) {
    if (!status) chunk->error = status.error();
    chunk->ended.store(true, std::memory_order_release);
    reads_ended_.fetch_add(1, std::memory_order_release);
  };
  chunk->transfer = channel_.read(to, from, {.deadline = {}, .callback = ended});
}

// In the order in which they were asked for.
void MailCore::reap(MailParcel& parcel) {
  for (; parcel.reaped < parcel.posted; ++parcel.reaped) {
    auto& chunk = parcel.chunks[parcel.reaped % options_.chunks_in_flight];
    if (!chunk.ended.load(std::memory_order_acquire)) return;
    chunk.transfer = {};
    if (chunk.error && !parcel.error) parcel.error = chunk.error;
    if (parcel.error || parcel.state != MailParcel::State::kReading) continue;
    parcel.landed.store(chunk.end, std::memory_order_release);
    changed_ = changed_ || parcel.handed_out;
  }
}

// A read has failed. Perhaps the sender's deadline came, and it has taken its memory back.
void MailCore::ask_if_given_up(MailParcel& parcel) {
  parcel.state = MailParcel::State::kAsking;
  parcel.asked = std::exchange(parcel.error, std::nullopt);
  auto at = parcel.announcement.index * Layout::kLine + kPeerGivenUpAt;
  post_read(parcel, parcel.buffer.bytes.first(sizeof(std::uint64_t)), {peer_.words, at}, 0);
  reap(parcel);
}

void MailCore::hear_answer(MailParcel& parcel) {
  std::uint64_t given_up = 0;
  std::memcpy(&given_up, parcel.buffer.bytes.data(), sizeof given_up);
  auto cause = *std::exchange(parcel.asked, std::nullopt);
  if (parcel.error || given_up != parcel.announcement.number) {
    fail_parcel(parcel, cause);
    break_with(cause);
    return;
  }
  fail_parcel(parcel, fail(Code::kAborted, "the sender at {} has given up a message of {} bytes",
                           channel_.peer_endpoint(), parcel.bytes)
                          .value());
  if (!parcel.handed_out) {
    inbox_.remove(&parcel);
    parcel.let_go = true;
  }
  ++stats_.refused;
  if (auto told = store_word(parcel, MailWord::State::kRefused, Code::kCancelled); !told)
    break_with(told.error());
}

void MailCore::read_over(MailParcel& parcel) {
  parcel.state = MailParcel::State::kWhole;
  parcel.landed.store(parcel.span, std::memory_order_release);
  changed_ = true;
  if (auto told = store_word(parcel, MailWord::State::kDone); !told) break_with(told.error());
}

void MailCore::fail_parcel(MailParcel& parcel, const Error& error) {
  parcel.state = MailParcel::State::kFailed;
  parcel.error = error;
  parcel.failed.store(true, std::memory_order_release);
  changed_ = true;
  for (auto i = parcel.reaped; i < parcel.posted; ++i)
    parcel.chunks[i % options_.chunks_in_flight].transfer.cancel();
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
  bool over = broken_.has_value();
  bool whole = over || (front != nullptr && front->state == State::kWhole);
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
  if (broken_) return tl::unexpected<Error>(*broken_);
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

}  // namespace ferry::transfer
