#include <algorithm>

#include "ferry/mail/mail_core_internal.h"

namespace ferry::mail {

namespace {

constexpr landing::SlotNames kMailNames{.item = "message batch", .owner = "mailbox"};
constexpr std::uint64_t kMostMailSlot = std::uint64_t{1} << 30;
constexpr std::uint64_t kUsualMailSlot = 16 << 10;
constexpr std::uint32_t kMostMailChunks = 1024;

// Where the user does not say: what is sent eagerly in a few parts fits.
std::uint64_t mail_slot_bytes(const MailboxOptions& options, const Tuning& tuning) {
  constexpr std::uint64_t kHeads = 256;
  auto needed = std::min(tuning.eager_threshold, kMostMailSlot / 2) + kHeads;
  return options.slot_bytes.value_or(std::max(kUsualMailSlot, needed));
}

Result<MailHello> exchange_hellos(fabric::Channel& channel, const MailHello& mine,
                                  const MailStart& start, Deadline deadline) {
  auto wire = mine.to_wire();
  auto sent = channel.send(wire, {.deadline = deadline});
  auto theirs = receive_hello(channel, start, deadline);
  auto away = sent.wait();
  FERRY_TRY(std::move(away));
  return MailHello::from_wire(FERRY_TRY(std::move(theirs)));
}

landing::Address landing_of(const MailHello& hello, const fabric::Channel& channel) {
  return {.spins = hello.spins,
          .slots = hello.slots,
          .body = hello.body,
          .nonce = hello.nonce,
          .owner = channel.peer(),
          .region = hello.landing};
}

// The beginning of the peer's words as memory of this process; null where the path maps nothing.
Result<std::byte*> map_words(const MailHello& hello, fabric::Channel& channel) {
  if (!channel.capabilities().maps_peer) return nullptr;
  auto memory = FERRY_TRY(channel.map(hello.words));
  if (memory.size() < hello.rendezvous * landing::Layout::kLine)
    return fail(Code::kDataLoss, "the peer at {} granted too little", channel.peer_endpoint());
  return memory.data();
}

landing::RemoteWord word_of(const MailHello& hello, fabric::Channel& channel, std::byte* mapped,
                            std::uint64_t at) {
  return {channel, fabric::RemoteAt{hello.words, at}, mapped == nullptr ? nullptr : mapped + at,
          !hello.spins};
}

}  // namespace

Status check_mail_options(const MailboxOptions& options) {
  auto slot = options.slot_bytes.value_or(kUsualMailSlot);
  if (slot < kLeastMailSlot || slot > kMostMailSlot)
    return fail(Code::kInvalidArgument, "slots of {} bytes; {} is the least, 1 GiB the most", slot,
                kLeastMailSlot);
  if (options.rendezvous == 0 || options.rendezvous > MailLimits::kRendezvous)
    return fail(Code::kInvalidArgument, "{} rendezvous; 1 to {} are possible", options.rendezvous,
                MailLimits::kRendezvous);
  if (options.send_bytes == 0)
    return fail(Code::kInvalidArgument, "a mailbox without memory for sends sends nothing");
  if (options.chunk_bytes == 0U)
    return fail(Code::kInvalidArgument, "large messages need chunks of at least one byte");
  if (auto chunks = options.chunks_in_flight.value_or(1); chunks == 0 || chunks > kMostMailChunks)
    return fail(Code::kInvalidArgument, "{} chunks in flight; 1 to {} are possible", chunks,
                kMostMailChunks);
  return {};
}

Result<std::unique_ptr<MailCore>> MailCore::open(RoomCore& room, fabric::Device& device,
                                                 fabric::Channel& channel,
                                                 const MailboxOptions& options,
                                                 const MailStart& start, Deadline deadline) {
  auto slot_bytes = mail_slot_bytes(options, start.tuning);
  auto layout = FERRY_TRY(landing::Layout::of(options.slots, align_up(slot_bytes, 64)));
  Parts parts;
  parts.options = options;
  parts.tuning = start.tuning;
  parts.source = start.source;
  parts.landing = FERRY_TRY(
      landing::Landing::open(device, channel, layout, landing::random_nonce(), kMailNames));
  parts.words = FERRY_TRY(
      device.allocate(options.rendezvous * landing::Layout::kLine, fabric::Rights::kReadWrite));
  MailHello mine;
  mine.spins = options.spins;
  mine.slots = layout.slots;
  mine.rendezvous = options.rendezvous;
  mine.body = layout.body;
  mine.nonce = parts.landing.nonce();
  mine.most_bytes = std::min(options.most_bytes, MailLimits::kBytes);
  mine.landing = parts.landing.remote();
  mine.words = FERRY_TRY(device.grant(parts.words, fabric::Rights::kReadWrite, channel));
  parts.peer = FERRY_TRY(exchange_hellos(channel, mine, start, deadline));
  auto mode = options.spins ? fabric::WaitMode::kSpin : fabric::WaitMode::kAdaptive;
  parts.launch = FERRY_TRY(
      landing::Launch::open(device, channel, landing_of(parts.peer, channel), mode, kMailNames));
  auto* mapped = FERRY_TRY(map_words(parts.peer, channel));
  for (std::uint32_t i = 0; i < parts.peer.rendezvous; ++i)
    parts.peer_words.push_back(word_of(parts.peer, channel, mapped, i * landing::Layout::kLine));
  parts.closed_word = word_of(parts.peer, channel, mapped, kClosedAt * sizeof(std::uint64_t));
  if (!parts.launch.maps())
    parts.staging = FERRY_TRY(device.allocate(
        batch_body(parts) * std::min(layout.slots, parts.peer.slots), fabric::Rights::kRead));
  FERRY_TRY(parts.landing.await_sender(device, deadline, mode));
  return std::make_unique<MailCore>(room, device, channel, std::move(parts));
}

std::uint64_t MailCore::batch_body(const Parts& parts) {
  return parts.launch.maps() ? parts.peer.body
                             : std::min(parts.peer.body, parts.landing.layout().body);
}

MailCore::MailCore(RoomCore& room, fabric::Device& device, fabric::Channel& channel, Parts parts)
    : room_(room),
      device_(device),
      channel_(channel),
      options_(parts.options),
      tuning_(parts.tuning, parts.source),
      peer_(parts.peer),
      maps_(parts.launch.maps()),
      batch_body_(batch_body(parts)),
      stages_(std::min(parts.options.slots, parts.peer.slots)),
      launch_(std::move(parts.launch)),
      staging_(std::move(parts.staging)),
      staged_(std::make_unique<Stage[]>(stages_)),
      pool_(device, &channel),
      words_(std::move(parts.words)),
      announced_(parts.options.rendezvous),
      seen_(std::make_unique<std::atomic<std::uint64_t>[]>(parts.options.rendezvous)),
      landing_(std::move(parts.landing)),
      slot_holds_(parts.options.slots),
      peer_words_(std::move(parts.peer_words)),
      closed_word_(parts.closed_word),
      index_in_use_(parts.peer.rendezvous) {
  LockGuard<SpinLock> guard(lock);
  watch_landing();
  room_.join(*this);
}

MailCore::~MailCore() {
  room_.leave(*this);
  constexpr auto kLinger = std::chrono::seconds(2);
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  fabric::Transfer farewell;
  {
    MailGuard guard(*this);
    // Behind every batch: who sees it has seen all messages.
    if (!peer_closed()) farewell = closed_word_.start(1, Deadline::after(kLinger));
    auto error = fail(Code::kCancelled, "the mailbox was closed").value();
    for (auto* parcel : reading_) drop_parcel(*parcel, error);
    break_with(error);
    reads = reads_posted_;
    writes = writes_posted_;
  }
  auto written = [&] { return writes_ended_.load(std::memory_order_acquire) == writes; };
  auto ended = [&] { return written() && reads_ended_.load(std::memory_order_acquire) == reads; };
  // Before any memory goes away: a read that finds none means that the mailbox is closed.
  (void)farewell.wait();
  // What was sent still goes out, unless the peer does not take it at all.
  if (!device_.wait_until(written, Deadline::after(kLinger)))
    for (std::uint32_t i = 0; i < stages_; ++i) staged_[i].transfer.cancel();
  constexpr auto kEnd = std::chrono::minutes(2);  // operations have deadlines of their own
  bool quiet = device_.wait_until(ended, Deadline::after(kEnd));
  FERRY_ASSERT(quiet, "a provider left an operation without an end");
  MailGuard guard(*this);
  continue_reads();
  for (auto& parcel : parcels_) give_back(*parcel);
}

MailGuard::~MailGuard() {
  bool tell = std::exchange(core_.changed_, false);
  bool rest = core_.has_rest();
  core_.lock.unlock();
  if (tell) core_.room_.tell();
  if (!rest) return;
  core_.do_rest();
  core_.room_.tell();
}

// One round of it: a long message must not keep a caller from its deadline.
void MailCore::do_rest() {
  map_regions();
  post_planned();
  {
    LockGuard<SpinLock> guard(lock);
    continue_reads();  // where the path copies at once
    update_front();
    note_more();
    changed_ = false;  // the caller tells in any case
  }
  end_rest();  // it may wait for the peer, so it comes last
}

void MailCore::progress() {
  MailGuard guard(*this);
  progress_locked();
}

void MailCore::progress_locked() {
  bool alive = channel_.alive();  // both asked first: what came before the end is taken
  bool closed = peer_closed();
  if (!broken_) {
    take_batches();
    settle_words();
    check_writes();
    if (closed) hear_closing();
  }
  if (!reading_.empty() || turn_.load(std::memory_order_relaxed)) continue_reads();
  if (!alive && !broken_)
    break_with(
        fail(Code::kUnavailable, "the peer at {} is gone; connect again", channel_.peer_endpoint())
            .value());
  if (!queue_.empty()) pump();
  note_more();
  update_front();
}

// The peer's mailbox is closed, and all that it has sent is here. What it has only announced does
// not come.
void MailCore::hear_closing() {
  if (broken_) return;
  auto error = closed_error();
  for (auto* parcel : reading_) drop_parcel(*parcel, error);
  break_with(error);
}

Error MailCore::closed_error() const {
  return fail(Code::kUnavailable, "the peer at {} has closed its mailbox", channel_.peer_endpoint())
      .value();
}

// Everything under way ends with this error; what has arrived whole, or is whole once its memory is
// mapped, can still be received.
void MailCore::break_with(const Error& error) {
  if (broken_) return;
  if (!taking_) take_batches();  // a send may be the first to see the end
  if (broken_) return;
  broken_ = error;
  is_broken_.store(true, std::memory_order_release);
  while (!queue_.empty()) {
    auto* out = queue_.pop();
    out->queued = false;
    end(*out, error);
  }
  for (auto* out : announced_) {
    if (out == nullptr) continue;
    off_wire(*out);
    out->lost = true;
    end(*out, error);
  }
  using State = MailParcel::State;
  for (auto* parcel : reading_)
    if (parcel->state == State::kWaiting || parcel->state == State::kReading ||
        parcel->state == State::kAsking)
      fail_parcel(*parcel, error);
  room_.leave_line(*this);
  update_front();
}

bool MailCore::may_be_ready() const {
  if (reads_ended_.load(std::memory_order_acquire) != reads_seen_.load(std::memory_order_relaxed))
    return true;
  if (is_broken_.load(std::memory_order_relaxed)) return false;
  auto idle = in_idle_.load(std::memory_order_relaxed);
  if (__atomic_load_n(in_word_.load(std::memory_order_relaxed), __ATOMIC_ACQUIRE) != idle)
    return true;
  if (out_blocked_.load(std::memory_order_seq_cst) && slot_came()) return true;
  if (on_wire_.load(std::memory_order_relaxed) != 0) {
    for (std::uint32_t i = 0; i < options_.rendezvous; ++i)
      if (__atomic_load_n(word_at(i), __ATOMIC_ACQUIRE) != seen_[i].load(std::memory_order_relaxed))
        return true;
  }
  return bad_writes_.load(std::memory_order_relaxed) != 0 || peer_closed() ||
         turn_.load(std::memory_order_relaxed) || more_.load(std::memory_order_relaxed) ||
         !channel_.alive();
}

bool MailCore::slot_came() const {
  const auto* word = out_word_.load(std::memory_order_relaxed);
  if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == out_busy_.load(std::memory_order_relaxed))
    return false;
  return maps_ ||
         !out_stage_.load(std::memory_order_relaxed)->writing.load(std::memory_order_acquire);
}

MailStats MailCore::stats() {
  LockGuard<SpinLock> guard(lock);
  auto stats = stats_;
  stats.heard = heard_;
  return stats;
}

}  // namespace ferry::mail
