#include <algorithm>

#include "ferry/mail/mail_core_internal.h"

namespace ferry::mail {

namespace {

constexpr landing::SlotNames kMailNames{.item = "message batch", .owner = "mailbox"};

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
  parts.closed_word = word_of(parts.peer, channel, mapped, MailWords::closed_offset());
  if (!parts.launch.maps())
    parts.staging =
        FERRY_TRY(device.allocate(parts.batch_body() * parts.stages(), fabric::Rights::kRead));
  FERRY_TRY(parts.landing.await_sender(device, deadline, mode));
  return std::make_unique<MailCore>(room, device, channel, std::move(parts));
}

std::uint64_t MailCore::Parts::batch_body() const {
  return launch.maps() ? peer.body : std::min(peer.body, landing.layout().body);
}

MailCore::MailCore(RoomCore& room, fabric::Device& device, fabric::Channel& channel, Parts parts)
    : room_(room),
      path_{.room = room.resources(),
            .device = device,
            .channel = channel,
            .options = parts.options,
            .tuning = LiveTuning(parts.tuning, parts.source),
            .peer = parts.peer,
            .maps = parts.launch.maps(),
            .batch_body = parts.batch_body()},
      words_(std::move(parts.words), std::move(parts.peer_words), parts.closed_word),
      out_(parts.options.rendezvous),
      pool_(device, &channel),
      outbound_(path_, words_, out_, pool_,
                MailBatchWriter(path_, out_, std::move(parts.launch), std::move(parts.staging),
                                parts.stages())),
      inbound_(path_, words_, in_, std::move(parts.landing)) {
  room.join(*this);
}

MailCore::~MailCore() {
  room_.leave(*this);
  constexpr auto kLinger = std::chrono::seconds(2);
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  fabric::Transfer farewell;
  {
    Guard guard(*this);
    // Behind every batch: who sees it has seen all messages.
    if (!words_.peer_closed()) farewell = words_.store_closed(Deadline::after(kLinger));
    const auto error = fail(Code::kCancelled, "the mailbox was closed").value();
    inbound_.drop_announced(error);
    break_with(error);
    reads = inbound_.reads().posted();
    writes = outbound_.writer().posted();
  }
  auto written = [&] { return out_.writes_ended.load(std::memory_order_acquire) == writes; };
  auto ended = [&] {
    return written() && in_.reads_ended.load(std::memory_order_acquire) == reads;
  };
  // Before any memory goes away: a read that finds none means that the mailbox is closed.
  (void)farewell.wait();
  // What was sent still goes out, unless the peer does not take it at all.
  if (!path_.device.wait_until(written, Deadline::after(kLinger))) outbound_.writer().cancel_all();
  constexpr auto kEnd = std::chrono::minutes(2);  // operations have deadlines of their own
  const bool quiet = path_.device.wait_until(ended, Deadline::after(kEnd));
  FERRY_ASSERT(quiet, "a provider left an operation without an end");
  Guard guard(*this);
  continue_reads();
  inbound_.give_back_all();
}

MailCore::Guard::~Guard() {
  const bool out_changed = core_.outbound_.take_changed();
  const bool in_changed = core_.inbound_.take_changed();
  const bool rest = core_.outbound_.has_ending() || core_.inbound_.has_rest();
  core_.lock_.unlock();
  if (out_changed || in_changed) core_.path_.room.waiters.wake();
  if (!rest) return;
  core_.do_rest();
  core_.path_.room.waiters.wake();
}

// One round of it: a long message must not keep a caller from its deadline.
void MailCore::do_rest() {
  map_next();
  post_planned();
  {
    LockGuard<SpinLock> guard(lock_);
    continue_reads();  // where the path copies at once
    inbound_.update_front(broken_.has_value());
    inbound_.note_rest();
    (void)inbound_.take_changed();  // the caller tells in any case
    (void)outbound_.take_changed();
  }
  end_rest();  // it may wait for the peer, so it comes last
}

// The first look at a region may ask the peer, which can take a second to prove a liar: one message
// at a time, and no further than its first region that is not there.
void MailCore::map_next() {
  MailMapping mapping;
  {
    LockGuard<SpinLock> guard(lock_);
    mapping = inbound_.begin_mapping();
  }
  if (mapping.parcel == nullptr) return;
  for (const auto& region : mapping.regions) {
    const auto mapped = path_.channel.map(region);
    if (!mapped) break;
    mapping.found.emplace_back(region.key, *mapped);
  }
  LockGuard<SpinLock> guard(lock_);
  check(inbound_.finish_mapping(mapping, broken_));
}

// As many as are planned now; any thread may post any.
void MailCore::post_planned() {
  std::size_t count = 0;
  {
    LockGuard<SpinLock> guard(lock_);
    count = inbound_.reads().planned();
  }
  for (; count != 0; --count) {
    MailChunk* chunk = nullptr;
    {
      LockGuard<SpinLock> guard(lock_);
      chunk = inbound_.reads().next_planned();
    }
    if (chunk == nullptr) return;
    post_read(chunk);
  }
}

void MailCore::post_read(MailChunk* chunk) {
  auto ended = [&signals = in_, chunk](const Status& status) {
    if (!status) chunk->error = status.error();
    chunk->ended.store(true, std::memory_order_release);
    signals.reads_ended.fetch_add(1, std::memory_order_release);
  };
  auto transfer = path_.channel.read(chunk->to, chunk->from, {.deadline = {}, .callback = ended});
  LockGuard<SpinLock> guard(lock_);
  MailReads::note_posted(*chunk, std::move(transfer));
}

// Lets go of registered memory, which waits for the peer, then says that the sends have ended.
void MailCore::end_rest() {
  std::vector<MailOutgoing*> ending;
  {
    LockGuard<SpinLock> guard(lock_);
    ending = outbound_.take_ending();
  }
  for (auto* out : ending) out->regions.clear();
  LockGuard<SpinLock> guard(lock_);
  for (auto* out : ending) outbound_.mark_ended(*out);
}

void MailCore::progress() {
  Guard guard(*this);
  progress_locked();
}

void MailCore::progress_locked() {
  const bool alive = path_.channel.alive();  // both asked first: what came before the end is taken
  const bool closed = words_.peer_closed();
  if (!broken_) check(inbound_.take_batches());
  if (!broken_) check(outbound_.progress());
  if (closed) hear_closing();
  if (inbound_.may_read()) continue_reads();
  if (!alive && !broken_)
    break_with(fail(Code::kUnavailable, "the peer at {} is gone; connect again",
                    path_.channel.peer_endpoint())
                   .value());
  if (!broken_ && outbound_.is_queueing()) check(outbound_.pump());
  inbound_.note_rest();
  inbound_.update_front(broken_.has_value());
}

void MailCore::continue_reads() {
  const auto read = inbound_.read();
  if (read) return;
  break_with(read.error());
  (void)inbound_.read();  // those that have failed by it are over
}

// The peer's mailbox is closed, and all that it has sent is here. What it has only announced does
// not come.
void MailCore::hear_closing() {
  if (broken_) return;
  const auto error = path_.closed_error();
  inbound_.drop_announced(error);
  break_with(error);
}

// Everything under way ends with this error; what has arrived whole, or is whole once its memory is
// mapped, can still be received.
void MailCore::break_with(const Error& error) {
  if (broken_) return;
  const auto taken = inbound_.take_batches();  // a send may be the first to see the end
  broken_ = taken ? error : taken.error();
  is_broken_.store(true, std::memory_order_release);
  outbound_.end_all(*broken_);
  inbound_.fail_all(*broken_);
  path_.room.receive_memory.leave_line(in_.waiter);
  inbound_.update_front(true);
}

MailStats MailCore::stats() {
  LockGuard<SpinLock> guard(lock_);
  auto stats = outbound_.stats();
  inbound_.add_to(stats);
  return stats;
}

}  // namespace ferry::mail
