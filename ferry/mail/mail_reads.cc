#include <algorithm>
#include <utility>

#include "ferry/mail/mail_reads_internal.h"

namespace ferry::mail {

Status MailReads::progress() {
  signals_.reads_seen.store(signals_.reads_ended.load(std::memory_order_acquire),
                            std::memory_order_relaxed);
  signals_.waiter.may_ask.store(false, std::memory_order_seq_cst);
  Status outcome;
  bool in_line = false;
  std::size_t kept = 0;
  for (auto* reading : reading_) {
    const auto more = step(*reading, in_line);
    if (!more && outcome) outcome = tl::unexpected<Error>(more.error());
    if (more && *more) {
      reading_[kept++] = reading;
      continue;
    }
    auto* parcel = reading->parcel;
    recycle(reading);
    if (parcel->let_go) {
      inbox_.recycle(parcel);
    } else if (parcel->state == State::kFailed && !parcel->handed_out) {
      inbox_.give_back_memory(*parcel);
    }
  }
  reading_.resize(kept);
  return outcome;
}

void MailReads::add(MailParcel* parcel) {
  if (spare_.empty()) {
    all_.push_back(std::make_unique<MailReading>());
    spare_.push_back(all_.back().get());
  }
  auto* reading = spare_.back();
  spare_.pop_back();
  reading->parcel = parcel;
  reading->posted = reading->reaped = 0;
  parcel->reading = reading;
  reading_.push_back(reading);
}

void MailReads::remove(MailParcel& parcel) {
  std::erase(reading_, parcel.reading);
  recycle(parcel.reading);
}

void MailReads::recycle(MailReading* reading) {
  reading->parcel->reading = nullptr;
  spare_.push_back(reading);
}

Result<bool> MailReads::step(MailReading& reading, bool& in_line) {
  auto& parcel = *reading.parcel;
  if (parcel.busy || parcel.state == State::kMapping) return true;
  if (parcel.state == State::kWaiting) {
    if (!in_line) FERRY_TRY(admit(reading, in_line));
    if (parcel.state != State::kReading) return parcel.state == State::kWaiting;
  }
  reap(reading);
  if (parcel.state == State::kReading && !parcel.error && !parcel.let_go) plan_chunks(reading);
  if (reading.in_flight()) return true;
  if (parcel.state == State::kAsking) {
    FERRY_TRY(hear_answer(reading));
    return false;
  }
  if (parcel.state != State::kReading) return false;
  if (parcel.error) {
    ask_if_given_up(reading);
    return true;
  }
  const bool read = reading.piece == parcel.announcement.pieces.size();
  if (!read && !parcel.let_go) return true;
  FERRY_TRY(finish(parcel));
  return false;
}

Status MailReads::admit(MailReading& reading, bool& in_line) {
  auto& parcel = *reading.parcel;
  const auto taken = path_.room.receive_memory.take(signals_.waiter, parcel.span);
  if (!taken) {
    inbox_.remove(parcel);
    parcel.state = State::kFailed;
    ++refused_;
    return answers_.answer(parcel.announcement, MailWord::State::kRefused, taken.error().code());
  }
  in_line = !taken->has_value();
  if (in_line) return {};
  inbox_.note_change();  // the next in line may ask
  begin(reading, **taken);
  return {};
}

void MailReads::begin(MailReading& reading, const ReceiveMemory::Buffer& buffer) const {
  reading.piece = 0;
  reading.first_part = 0;
  reading.piece_at = reading.piece_done = 0;
  if (const auto most = path_.tuning.chunks_in_flight(); reading.most_chunks != most) {
    reading.chunks = std::make_unique<MailChunk[]>(most);
    reading.most_chunks = most;
  }
  auto& parcel = *reading.parcel;
  parcel.buffer = buffer;
  parcel.state = State::kReading;
  parcel.parts.clear();
  std::uint64_t at = 0;
  for (auto size : parcel.announcement.sizes) {
    at = align_up(at, MailLimits::kAlign);
    parcel.parts.push_back(parcel.buffer.bytes.subspan(at, size));
    at += size;
  }
}

void MailReads::plan_chunks(MailReading& reading) {
  const auto& parcel = *reading.parcel;
  const auto& announcement = parcel.announcement;
  while (reading.piece < announcement.pieces.size() && !parcel.error) {
    const auto& piece = announcement.pieces[reading.piece];
    const auto span = announcement.span_of(reading.first_part, piece.parts);
    if (reading.piece_done == span) {
      reading.piece_at = align_up(reading.piece_at + span, MailLimits::kAlign);
      reading.first_part += piece.parts;
      reading.piece_done = 0;
      ++reading.piece;
      continue;
    }
    if (reading.posted - reading.reaped == reading.most_chunks) return;
    const auto bytes = std::min(path_.tuning.chunk_bytes(), span - reading.piece_done);
    const auto at = reading.piece_at + reading.piece_done;
    ++chunks_;
    plan_read(reading, parcel.buffer.bytes.subspan(at, bytes),
              {piece.region, piece.offset + reading.piece_done}, at + bytes);
    reading.piece_done += bytes;
  }
}

void MailReads::plan_read(MailReading& reading, std::span<std::byte> to,
                          const fabric::RemoteAt& from, std::uint64_t end) {
  auto* chunk = &reading.chunk(reading.posted++);
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

void MailReads::reap(MailReading& reading) {
  auto& parcel = *reading.parcel;
  for (; reading.in_flight(); ++reading.reaped) {
    auto& chunk = reading.chunk(reading.reaped);
    if (chunk.stage != MailChunk::Stage::kPosted || !chunk.ended.load(std::memory_order_acquire))
      return;
    chunk.transfer = {};
    if (chunk.error && !parcel.error) parcel.error = chunk.error;
    if (parcel.error || parcel.state != State::kReading) continue;
    parcel.landed.store(chunk.end, std::memory_order_release);
    if (parcel.handed_out) inbox_.note_change();
  }
}

void MailReads::fail_reading(MailReading& reading, const Error& error) {
  auto& parcel = *reading.parcel;
  parcel.state = State::kFailed;
  parcel.error = error;
  parcel.failed.store(true, std::memory_order_release);
  inbox_.note_change();
  maps_.forget(parcel);
  for (auto i = reading.reaped; i < reading.posted; ++i) unplan(reading.chunk(i));
}

void MailReads::drop_reading(MailReading& reading, const Error& error) {
  auto& parcel = *reading.parcel;
  if (parcel.state == State::kFailed || parcel.state == State::kWhole) return;
  fail_reading(reading, error);
  if (!parcel.handed_out && !parcel.let_go) inbox_.remove(parcel);
}

void MailReads::fail_all(const Error& error) {
  for (auto* reading : reading_) {
    const auto state = reading->parcel->state;
    if (state == State::kWaiting || state == State::kReading || state == State::kAsking)
      fail_reading(*reading, error);
  }
}

void MailReads::drop_all(const Error& error) {
  for (auto* reading : reading_) drop_reading(*reading, error);
}

void MailReads::ask_if_given_up(MailReading& reading) {
  auto& parcel = *reading.parcel;
  parcel.state = State::kAsking;
  reading.asked = std::exchange(parcel.error, std::nullopt);
  plan_read(reading, std::as_writable_bytes(std::span(&reading.given_up, 1)),
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

Status MailReads::hear_answer(MailReading& reading) {
  auto& parcel = *reading.parcel;
  const auto cause = refusal(*std::exchange(reading.asked, std::nullopt));
  if (words_.peer_closed()) {  // what else the closing means is seen to when it is heard
    drop_reading(reading, path_.closed_error());
    return {};
  }
  if (parcel.error || reading.given_up != parcel.announcement.number) {
    fail_reading(reading, cause);
    return tl::unexpected<Error>(cause);
  }
  drop_reading(reading, fail(Code::kAborted, "the sender at {} has given up a message of {} bytes",
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
