#include <algorithm>

#include "ferry/mail/mail_core_internal.h"

// Large messages that are read in chunks into memory of the room.

namespace ferry::mail {

void MailCore::continue_reads() {
  reads_seen_.store(reads_ended_.load(std::memory_order_acquire), std::memory_order_relaxed);
  turn_.store(false, std::memory_order_seq_cst);
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

// False: there is nothing more to do for it.
bool MailCore::step(MailParcel& parcel, bool& in_line) {
  using State = MailParcel::State;
  if (parcel.busy || parcel.state == State::kMapping) return true;
  if (parcel.state == State::kWaiting && !admit(parcel, in_line))
    return parcel.state == State::kWaiting;
  reap(parcel);
  if (parcel.state == State::kReading && !parcel.error && !parcel.let_go) plan_chunks(parcel);
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
  if (const auto most = tuning_.chunks_in_flight(); parcel.most_chunks != most) {
    parcel.chunks = std::make_unique<MailChunk[]>(most);
    parcel.most_chunks = most;
  }
  parcel.parts.clear();
  std::uint64_t at = 0;
  for (auto size : parcel.announcement.sizes) {
    at = align_up(at, MailLimits::kAlign);
    parcel.parts.push_back(parcel.buffer.bytes.subspan(at, size));
    at += size;
  }
  return true;
}

void MailCore::plan_chunks(MailParcel& parcel) {
  const auto& announcement = parcel.announcement;
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
    if (parcel.posted - parcel.reaped == parcel.most_chunks) return;
    auto bytes = std::min(tuning_.chunk_bytes(), span - parcel.piece_done);
    auto at = parcel.piece_at + parcel.piece_done;
    ++stats_.reads;
    plan_read(parcel, parcel.buffer.bytes.subspan(at, bytes),
              {piece.region, piece.offset + parcel.piece_done}, at + bytes);
    parcel.piece_done += bytes;
  }
}

void MailCore::plan_read(MailParcel& parcel, std::span<std::byte> to, const fabric::RemoteAt& from,
                         std::uint64_t end) {
  auto* chunk = &parcel.chunks[parcel.posted++ % parcel.most_chunks];
  chunk->error.reset();
  chunk->to = to;
  chunk->from = from;
  chunk->end = end;
  chunk->unwanted = false;
  chunk->ended.store(false, std::memory_order_relaxed);
  chunk->stage = MailChunk::Stage::kPlanned;
  planned_.push(chunk);
}

// As many as are planned now; any thread may post any.
void MailCore::post_planned() {
  std::size_t count = 0;
  {
    LockGuard<SpinLock> guard(lock);
    count = planned_.count();
  }
  for (; count != 0; --count) {
    MailChunk* chunk = nullptr;
    {
      LockGuard<SpinLock> guard(lock);
      if (planned_.empty()) return;
      chunk = planned_.pop();
      chunk->stage = MailChunk::Stage::kPosting;
      ++reads_posted_;
    }
    post_read(chunk);
  }
}

void MailCore::post_read(MailChunk* chunk) {
  auto ended = [this, chunk](const Status& status) {
    if (!status) chunk->error = status.error();
    chunk->ended.store(true, std::memory_order_release);
    reads_ended_.fetch_add(1, std::memory_order_release);
  };
  auto transfer = channel_.read(chunk->to, chunk->from, {.deadline = {}, .callback = ended});
  LockGuard<SpinLock> guard(lock);
  chunk->transfer = std::move(transfer);
  chunk->stage = MailChunk::Stage::kPosted;
  if (chunk->unwanted) chunk->transfer.cancel();
}

// Its message has failed: the read is not posted, or is given up.
void MailCore::unplan(MailChunk& chunk) {
  using Stage = MailChunk::Stage;
  chunk.unwanted = true;
  if (chunk.stage == Stage::kPosted) chunk.transfer.cancel();
  if (chunk.stage != Stage::kPlanned) return;
  planned_.remove(&chunk);
  chunk.stage = Stage::kPosted;
  chunk.ended.store(true, std::memory_order_relaxed);
}

// In the order in which they were asked for.
void MailCore::reap(MailParcel& parcel) {
  for (; parcel.reaped < parcel.posted; ++parcel.reaped) {
    auto& chunk = parcel.chunks[parcel.reaped % parcel.most_chunks];
    if (chunk.stage != MailChunk::Stage::kPosted || !chunk.ended.load(std::memory_order_acquire))
      return;
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
  auto at = parcel.announcement.index * landing::Layout::kLine + kGivenUpAt * sizeof(std::uint64_t);
  plan_read(parcel, std::as_writable_bytes(std::span(&parcel.given_up, 1)), {peer_.words, at}, 0);
}

// What to say of a read that the sender's end has refused: it has announced what it does not grant.
Error MailCore::refusal(const Error& cause) const {
  bool peer_lied = cause.code() == Code::kNotFound || cause.code() == Code::kOutOfRange ||
                   cause.code() == Code::kPermissionDenied ||
                   cause.code() == Code::kFailedPrecondition;
  if (!peer_lied) return cause;
  return fail(Code::kDataLoss, "the sender at {} announces memory that cannot be read: {}",
              channel_.peer_endpoint(), cause.message())
      .value();
}

void MailCore::hear_answer(MailParcel& parcel) {
  auto cause = refusal(*std::exchange(parcel.asked, std::nullopt));
  if (peer_closed()) {
    drop_parcel(parcel, closed_error());  // the rest of the closing is heard in its turn
    return;
  }
  if (parcel.error || parcel.given_up != parcel.announcement.number) {
    fail_parcel(parcel, cause);
    break_with(cause);
    return;
  }
  drop_parcel(parcel, fail(Code::kAborted, "the sender at {} has given up a message of {} bytes",
                           channel_.peer_endpoint(), parcel.bytes)
                          .value());
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

}  // namespace ferry::mail
