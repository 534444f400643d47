#include <algorithm>

#include "ferry/mail/mail_reads_internal.h"

namespace ferry::mail {

Status MailReads::progress() {
  signals_.reads_seen.store(signals_.reads_ended.load(std::memory_order_acquire),
                            std::memory_order_relaxed);
  signals_.waiter.may_ask.store(false, std::memory_order_seq_cst);
  Status outcome;
  bool in_line = false;
  std::size_t kept = 0;
  for (auto* parcel : reading_) {
    const auto more = step(*parcel, in_line);
    if (!more && outcome) outcome = tl::unexpected<Error>(more.error());
    if (more && *more) {
      reading_[kept++] = parcel;
      continue;
    }
    parcel->in_reading = false;
    if (parcel->let_go) {
      inbox_.recycle(parcel);
    } else if (parcel->state == State::kFailed && !parcel->handed_out) {
      inbox_.give_back_memory(*parcel);
    }
  }
  reading_.resize(kept);
  return outcome;
}

Result<bool> MailReads::step(MailParcel& parcel, bool& in_line) {
  if (parcel.busy || parcel.state == State::kMapping) return true;
  if (parcel.state == State::kWaiting) {
    if (!in_line) FERRY_TRY(admit(parcel, in_line));
    if (parcel.state != State::kReading) return parcel.state == State::kWaiting;
  }
  reap(parcel);
  if (parcel.state == State::kReading && !parcel.error && !parcel.let_go) plan_chunks(parcel);
  if (parcel.posted != parcel.reaped) return true;
  if (parcel.state == State::kAsking) {
    FERRY_TRY(hear_answer(parcel));
    return false;
  }
  if (parcel.state != State::kReading) return false;
  if (parcel.error) {
    ask_if_given_up(parcel);
    return true;
  }
  const bool read = parcel.piece == parcel.announcement.pieces.size();
  if (!read && !parcel.let_go) return true;
  FERRY_TRY(finish(parcel));
  return false;
}

Status MailReads::admit(MailParcel& parcel, bool& in_line) {
  const auto taken = path_.room.take(signals_.waiter, parcel.span);
  if (!taken) {
    inbox_.remove(parcel);
    parcel.state = State::kFailed;
    ++refused_;
    return answers_.answer(parcel.announcement, MailWord::State::kRefused, taken.error().code());
  }
  in_line = !taken->has_value();
  if (in_line) return {};
  inbox_.note_change();  // the next in line may ask
  begin(parcel, **taken);
  return {};
}

void MailReads::begin(MailParcel& parcel, const RoomCore::Buffer& buffer) const {
  parcel.buffer = buffer;
  parcel.state = State::kReading;
  parcel.piece = 0;
  parcel.first_part = 0;
  parcel.piece_at = parcel.piece_done = parcel.posted = parcel.reaped = 0;
  if (const auto most = path_.tuning.chunks_in_flight(); parcel.most_chunks != most) {
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
}

void MailReads::plan_chunks(MailParcel& parcel) {
  const auto& announcement = parcel.announcement;
  while (parcel.piece < announcement.pieces.size() && !parcel.error) {
    const auto& piece = announcement.pieces[parcel.piece];
    const auto span = announcement.span_of(parcel.first_part, piece.parts);
    if (parcel.piece_done == span) {
      parcel.piece_at = align_up(parcel.piece_at + span, MailLimits::kAlign);
      parcel.first_part += piece.parts;
      parcel.piece_done = 0;
      ++parcel.piece;
      continue;
    }
    if (parcel.posted - parcel.reaped == parcel.most_chunks) return;
    const auto bytes = std::min(path_.tuning.chunk_bytes(), span - parcel.piece_done);
    const auto at = parcel.piece_at + parcel.piece_done;
    ++chunks_;
    plan_read(parcel, parcel.buffer.bytes.subspan(at, bytes),
              {piece.region, piece.offset + parcel.piece_done}, at + bytes);
    parcel.piece_done += bytes;
  }
}

void MailReads::plan_read(MailParcel& parcel, std::span<std::byte> to, const fabric::RemoteAt& from,
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

MailChunk* MailReads::next_planned() {
  if (planned_.empty()) return nullptr;
  auto* chunk = planned_.pop();
  chunk->stage = MailChunk::Stage::kPosting;
  ++posted_;
  return chunk;
}

void MailReads::note_posted(MailChunk& chunk, fabric::Transfer transfer) {
  chunk.transfer = std::move(transfer);
  chunk.stage = MailChunk::Stage::kPosted;
  if (chunk.unwanted) chunk.transfer.cancel();
}

void MailReads::unplan(MailChunk& chunk) {
  using Stage = MailChunk::Stage;
  chunk.unwanted = true;
  if (chunk.stage == Stage::kPosted) chunk.transfer.cancel();
  if (chunk.stage != Stage::kPlanned) return;
  planned_.remove(&chunk);
  chunk.stage = Stage::kPosted;
  chunk.ended.store(true, std::memory_order_relaxed);
}

void MailReads::reap(MailParcel& parcel) {
  for (; parcel.reaped < parcel.posted; ++parcel.reaped) {
    auto& chunk = parcel.chunks[parcel.reaped % parcel.most_chunks];
    if (chunk.stage != MailChunk::Stage::kPosted || !chunk.ended.load(std::memory_order_acquire))
      return;
    chunk.transfer = {};
    if (chunk.error && !parcel.error) parcel.error = chunk.error;
    if (parcel.error || parcel.state != State::kReading) continue;
    parcel.landed.store(chunk.end, std::memory_order_release);
    if (parcel.handed_out) inbox_.note_change();
  }
}

void MailReads::fail_parcel(MailParcel& parcel, const Error& error) {
  parcel.state = State::kFailed;
  parcel.error = error;
  parcel.failed.store(true, std::memory_order_release);
  inbox_.note_change();
  maps_.forget(parcel);
  for (auto i = parcel.reaped; i < parcel.posted; ++i)
    unplan(parcel.chunks[i % parcel.most_chunks]);
}

void MailReads::drop_parcel(MailParcel& parcel, const Error& error) {
  if (parcel.state == State::kFailed || parcel.state == State::kWhole) return;
  fail_parcel(parcel, error);
  if (!parcel.handed_out && !parcel.let_go) inbox_.remove(parcel);
}

void MailReads::fail_all(const Error& error) {
  for (auto* parcel : reading_)
    if (parcel->state == State::kWaiting || parcel->state == State::kReading ||
        parcel->state == State::kAsking)
      fail_parcel(*parcel, error);
}

void MailReads::drop_all(const Error& error) {
  for (auto* parcel : reading_) drop_parcel(*parcel, error);
}

void MailReads::ask_if_given_up(MailParcel& parcel) {
  parcel.state = State::kAsking;
  parcel.asked = std::exchange(parcel.error, std::nullopt);
  plan_read(parcel, std::as_writable_bytes(std::span(&parcel.given_up, 1)),
            {path_.peer.words, MailWords::given_up_offset(parcel.announcement.index)}, 0);
}

Error MailReads::refusal(const Error& cause) const {
  const bool peer_lied = cause.code() == Code::kNotFound || cause.code() == Code::kOutOfRange ||
                         cause.code() == Code::kPermissionDenied ||
                         cause.code() == Code::kFailedPrecondition;
  if (!peer_lied) return cause;
  return fail(Code::kDataLoss, "the sender at {} announces memory that cannot be read: {}",
              path_.channel.peer_endpoint(), cause.message())
      .value();
}

Status MailReads::hear_answer(MailParcel& parcel) {
  const auto cause = refusal(*std::exchange(parcel.asked, std::nullopt));
  if (words_.peer_closed()) {  // what else the closing means is seen to when it is heard
    drop_parcel(parcel, path_.closed_error());
    return {};
  }
  if (parcel.error || parcel.given_up != parcel.announcement.number) {
    fail_parcel(parcel, cause);
    return tl::unexpected<Error>(cause);
  }
  drop_parcel(parcel, fail(Code::kAborted, "the sender at {} has given up a message of {} bytes",
                           path_.channel.peer_endpoint(), parcel.bytes)
                          .value());
  ++refused_;
  return answers_.answer(parcel.announcement, MailWord::State::kRefused, Code::kCancelled);
}

Status MailReads::finish(MailParcel& parcel) {
  parcel.state = State::kWhole;
  parcel.landed.store(parcel.span, std::memory_order_release);
  inbox_.note_change();
  return answers_.answer(parcel.announcement, MailWord::State::kDone);
}

}  // namespace ferry::mail
