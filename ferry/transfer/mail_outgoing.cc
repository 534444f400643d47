#include <cstring>

#include "ferry/transfer/mail_core_internal.h"

// Messages that do not go out at once: queued ones, and large ones that are announced and read by
// the peer.

namespace ferry::transfer {

namespace {
// A part in ordinary memory is copied up to here, and registered for this one send beyond.
constexpr std::uint64_t kMailCopyUpTo = 128 << 10;
// At the second half of a rendezvous line: the last message that its sender has given up.
constexpr std::uint64_t kGivenUpAt = 8;
}  // namespace

MailOutgoing* MailCore::new_outgoing(MailParts parts, std::uint64_t bytes, Deadline deadline) {
  if (spare_outgoing_.empty()) {
    outgoing_.push_back(std::make_unique<MailOutgoing>());
    spare_outgoing_.push_back(outgoing_.back().get());
  }
  auto* out = spare_outgoing_.back();
  spare_outgoing_.pop_back();
  out->parts.assign(parts.begin(), parts.end());
  out->bytes = bytes;
  out->deadline = deadline;
  out->large = false;
  out->error.reset();
  out->ending = false;
  out->held = true;
  out->ended.store(false, std::memory_order_relaxed);
  open_sends_.fetch_add(1, std::memory_order_relaxed);
  return out;
}

Result<MailOutgoing*> MailCore::send_queued(MailParts parts, std::uint64_t bytes,
                                            Deadline deadline) {
  auto* out = new_outgoing(parts, bytes, deadline);
  share_all(*out);
  out->queued = true;
  queue_.push(out);
  pump();
  return out;
}

Result<MailOutgoing*> MailCore::send_large(MailParts parts, std::uint64_t bytes,
                                           Deadline deadline) {
  MailOutgoing* out = nullptr;
  {
    MailGuard guard(*this);
    if (broken_) return tl::unexpected<Error>(*broken_);
    out = new_outgoing(parts, bytes, deadline);
    share_all(*out);
  }
  out->large = true;
  auto prepared = prepare(*out);
  MailGuard guard(*this);
  if (!prepared || broken_) {
    end(*out, prepared ? *broken_ : prepared.error());
    return out;
  }
  out->queued = true;
  queue_.push(out);
  pump();
  return out;
}

// The parts that lie in buffers of ours keep those from being used anew.
void MailCore::share_all(MailOutgoing& out) {
  for (const auto& part : out.parts) {
    auto* found = shared_at(part);
    if (found == nullptr) continue;
    ++found->shares;
    out.buffers.push_back(found->buffer.index);
  }
}

MailCore::Shared* MailCore::shared_at(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  for (auto& shared : shared_) {
    const auto* begin = shared.buffer.bytes.data();
    if (shared.shares != 0 && bytes.data() >= begin &&
        bytes.data() + bytes.size() <= begin + shared.buffer.bytes.size())
      return &shared;
  }
  return nullptr;
}

void MailCore::unshare(std::size_t index) {
  if (--shared_[index].shares == 0) pool_.give(index);
}

Result<BufferPool::Buffer> MailCore::share_new(std::uint64_t bytes, MailOutgoing* out) {
  auto buffer = FERRY_TRY(pool_.take(bytes));
  MailGuard guard(*this);
  if (shared_.size() <= buffer.index) shared_.resize(buffer.index + 1);
  shared_[buffer.index] = {buffer, 1};
  if (out != nullptr) out->buffers.push_back(buffer.index);
  return buffer;
}

Result<BufferPool::Buffer> MailCore::allocate(std::uint64_t bytes) {
  progress();  // what the peer has let go of meanwhile can be used again
  return share_new(bytes, nullptr);
}

void MailCore::drop_buffer(std::size_t index) {
  MailGuard guard(*this);
  unshare(index);
}

// How each part gets to where the peer can read it.
std::vector<MailCore::Place> MailCore::find_places(const MailOutgoing& out) {
  std::vector<Place> places(out.parts.size());
  MailGuard guard(*this);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& part = out.parts[i];
    if (const auto* found = shared_at(part)) {
      places[i].how = Place::How::kShared;
      places[i].remote = found->buffer.remote;
      places[i].offset = static_cast<std::uint64_t>(part.data() - found->buffer.bytes.data());
    } else if (part.size() > kMailCopyUpTo) {
      places[i].how = Place::How::kRegister;
    }
  }
  return places;
}

Status MailCore::prepare(MailOutgoing& out) {
  auto& sizes = out.announcement.sizes;
  sizes.clear();
  for (const auto& part : out.parts) sizes.push_back(part.size());
  auto places = find_places(out);
  std::size_t pieces = 0;
  bool after_copy = false;
  for (const auto& place : places) {
    bool copy = place.how == Place::How::kCopy;
    pieces += copy && after_copy ? 0 : 1;
    after_copy = copy;
  }
  if (pieces > MailLimits::kPieces)
    for (auto& place : places) place.how = Place::How::kCopy;
  FERRY_TRY(copy_parts(out, places));
  return name_pieces(out, places);
}

// Copies what is to be copied into one buffer; neighbours lie there as they will at the receiver.
Status MailCore::copy_parts(MailOutgoing& out, std::vector<Place>& places) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].how != Place::How::kCopy) continue;
    places[i].offset = bytes;
    bytes = align_up(bytes + out.parts[i].size(), MailLimits::kAlign);
    ++count;
  }
  if (count == 0) return {};
  auto buffer = FERRY_TRY(share_new(bytes, &out));
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].how != Place::How::kCopy) continue;
    places[i].remote = buffer.remote;
    const auto& part = out.parts[i];
    if (!part.empty())
      std::memcpy(buffer.bytes.data() + places[i].offset, part.data(), part.size());
  }
  MailGuard guard(*this);
  stats_.copies += count;
  return {};
}

Status MailCore::name_pieces(MailOutgoing& out, const std::vector<Place>& places) {
  auto& pieces = out.announcement.pieces;
  pieces.clear();
  bool after_copy = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto place = places[i];
    bool copy = place.how == Place::How::kCopy;
    if (copy && after_copy) {
      ++pieces.back().parts;
      continue;
    }
    after_copy = copy;
    if (place.how == Place::How::kRegister) {
      auto* data = const_cast<std::byte*>(out.parts[i].data());  // peers may only read it
      auto region =
          FERRY_TRY(device_.register_memory({data, out.parts[i].size()}, fabric::Rights::kRead));
      place.remote = FERRY_TRY(device_.grant(region, fabric::Rights::kRead, channel_));
      out.regions.push_back(std::move(region));
    }
    pieces.push_back({place.remote, place.offset, 1});
  }
  out.announcement.mappable = out.regions.empty();
  MailGuard guard(*this);
  stats_.registered += out.regions.size();
  return {};
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
  __atomic_store_n(word_at(out.announcement.index) + kGivenUpAt / sizeof(std::uint64_t),
                   out.announcement.number, __ATOMIC_RELEASE);
  end(out, fail(Code::kDeadlineExceeded,
                "the receiver at {} has not taken a message of {} bytes that was announced",
                channel_.peer_endpoint(), out.bytes)
               .value());
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

}  // namespace ferry::transfer
