// Data path.
#include "ferry/mail/mail_engine_internal.h"

// What a program asks of a mailbox that sends.

namespace ferry::mail {

Result<MailSent> MailEngine::send(MailParts parts, Deadline deadline) {
  if (parts.size() > MailLimits::kParts)
    return fail(Code::kInvalidArgument, "a message of {} parts; {} is the most", parts.size(),
                MailLimits::kParts);
  std::uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  if (bytes > path_.peer.most_bytes)
    return fail(Code::kOutOfRange, "a message of {} bytes; the peer at {} takes {} at most", bytes,
                path_.channel.peer_endpoint(), path_.peer.most_bytes);
  if (!path_.is_eager(parts, bytes)) return send_large(parts, bytes, deadline);
  Guard guard(*this);
  if (!broken_) {
    const auto sent = outbound_.send_now(parts, bytes);
    if (sent && *sent) return MailSent{};
    if (!sent) break_with(sent.error());
  }
  if (broken_) return tl::unexpected<Error>(*broken_);
  return send_queued(parts, bytes, deadline);
}

Result<MailSent> MailEngine::send_queued(MailParts parts, std::uint64_t bytes, Deadline deadline) {
  const auto cost = MailOutbound::note_bytes(parts);
  if (!outbound_.has_room(cost)) progress_locked();
  if (broken_) return tl::unexpected<Error>(*broken_);
  if (!outbound_.has_room(cost)) return MailSent{nullptr, cost};
  auto* out = outbound_.begin(parts, bytes, deadline, cost, false);
  check(outbound_.enqueue(out));
  return MailSent{out};
}

Result<MailSent> MailEngine::begin_large(MailParts parts, std::uint64_t bytes, Deadline deadline,
                                         std::vector<MailPlace>& places) {
  Guard guard(*this);
  if (signals_.out.kept_bytes.load(std::memory_order_relaxed) != 0) progress_locked();
  if (broken_) return tl::unexpected<Error>(*broken_);
  places = outbound_.buffers().find_places(parts, path_.tuning.copy_up_to());
  auto cost = MailOutbound::note_bytes(parts);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i].how == MailPlace::How::kCopy)
      cost += align_up(parts[i].size(), MailLimits::kAlign);
  if (!outbound_.has_room(cost)) return MailSent{nullptr, cost};
  return MailSent{outbound_.begin(parts, bytes, deadline, cost, true)};
}

Result<MailSent> MailEngine::send_large(MailParts parts, std::uint64_t bytes, Deadline deadline) {
  std::vector<MailPlace> places;
  const auto begun = FERRY_TRY(begin_large(parts, bytes, deadline, places));
  if (begun.out == nullptr) return begun;
  auto& out = *begun.out;
  const auto prepared = prepare(out, places);
  Guard guard(*this);
  if (!prepared || broken_) {
    outbound_.end(out, prepared ? *broken_ : prepared.error());
    return begun;
  }
  auto& stats = outbound_.stats();
  stats.copies += prepared->parts;
  stats.copied_bytes += prepared->bytes;
  stats.registered += out.regions.size();
  check(outbound_.enqueue(&out));
  return begun;
}

Result<MailCopies> MailEngine::prepare(MailOutgoing& out, std::vector<MailPlace>& places) {
  const auto copies = lay_out_copies(out.parts, places);
  if (copies.parts != 0) {
    const auto buffer = FERRY_TRY(take_buffer(copies.span, &out));
    copy_parts(buffer, out.parts, copies, places);
  }
  FERRY_TRY(announce_places(path_, out, places));
  return copies;
}

tl::unexpected<Error> MailEngine::no_room(Code code, std::uint64_t lacks) const {
  return fail(
      code,
      "{} bytes are kept for messages to {} that wait to be sent, and {} more would be over "
      "the limit of {}: nothing was sent",
      signals_.out.kept_bytes.load(std::memory_order_relaxed), path_.channel.peer_endpoint(), lacks,
      path_.options.send_bytes);
}

bool MailEngine::poll_send(MailOutgoing* out) {
  progress();
  if (out->ended.load(std::memory_order_acquire)) return true;
  if (!out->deadline.expired()) return false;
  {
    Guard guard(*this);
    outbound_.expire(*out);
  }
  return out->ended.load(std::memory_order_acquire);
}

void MailEngine::drop_send(MailOutgoing* out) {
  Guard guard(*this);
  outbound_.drop(*out);
}

void MailEngine::expire_due() {
  Guard guard(*this);
  progress_locked();
  outbound_.expire_due();
}

Result<landing::BufferPool::Buffer> MailEngine::take_buffer(std::uint64_t bytes,
                                                            MailOutgoing* out) {
  auto buffer = FERRY_TRY(pool_.take(bytes));
  Guard guard(*this);
  // What broke meanwhile may have given back what the peer still looks at.
  if (broken_) {
    pool_.give(buffer.index);
    return tl::unexpected<Error>(*broken_);
  }
  outbound_.buffers().add(buffer, out, out == nullptr ? bytes : 0);
  return buffer;
}

Result<std::optional<landing::BufferPool::Buffer>> MailEngine::allocate(std::uint64_t bytes) {
  {
    Guard guard(*this);
    progress_locked();  // what the peer has let go of meanwhile can be used again
    // Also since the peer may still look at what was given back when the mailbox broke.
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (!has_room(signals_.out.given_bytes, bytes, path_.options))
      return std::optional<landing::BufferPool::Buffer>();
    signals_.out.given_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  auto buffer = take_buffer(bytes, nullptr);
  if (!buffer) signals_.out.given_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return FERRY_TRY(std::move(buffer));
}

tl::unexpected<Error> MailEngine::no_buffer(Code code, std::uint64_t bytes) const {
  return fail(code,
              "{} bytes for messages to {} are in use, and {} more would be over the limit of {}",
              signals_.out.given_bytes.load(std::memory_order_relaxed),
              path_.channel.peer_endpoint(), bytes, path_.options.send_bytes);
}

void MailEngine::drop_buffer(std::size_t index) {
  Guard guard(*this);
  outbound_.drop_buffer(index);
}

}  // namespace ferry::mail
