#include "ferry/mail/mail_engine_internal.h"

namespace ferry::mail {

MailEngine::MailEngine(RoomResources& room, fabric::Device& device, fabric::Channel& channel,
                       MailSetup setup)
    : path_{.room = room,
            .device = device,
            .channel = channel,
            .options = setup.options,
            .tuning = LiveTuning(setup.tuning, setup.source),
            .peer = setup.peer,
            .maps = setup.launch.maps(),
            .batch_body = setup.batch_body()},
      words_(std::move(setup.words), std::move(setup.peer_words), setup.closed_word),
      signals_(path_, words_),
      pool_(device, &channel),
      outbound_(path_, words_, signals_.out, pool_,
                MailBatchWriter(path_, signals_.out, std::move(setup.launch),
                                std::move(setup.staging), setup.stages())),
      inbound_(path_, words_, signals_.in, std::move(setup.landing)) {}

MailEngine::~MailEngine() {
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
  auto written = [&] {
    return signals_.out.writes_ended.load(std::memory_order_acquire) == writes;
  };
  auto ended = [&] {
    return written() && signals_.in.reads_ended.load(std::memory_order_acquire) == reads;
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

MailEngine::Guard::~Guard() {
  const bool out_changed = engine_.outbound_.take_changed();
  const bool in_changed = engine_.inbound_.take_changed();
  const bool rest = engine_.outbound_.has_ending() || engine_.inbound_.has_rest();
  engine_.lock_.unlock();
  if (out_changed || in_changed) engine_.path_.room.waiters.wake();
  if (!rest) return;
  engine_.do_rest();
  engine_.path_.room.waiters.wake();
}

void MailEngine::do_rest() {
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

void MailEngine::map_next() {
  MailMapping mapping;
  {
    LockGuard<SpinLock> guard(lock_);
    mapping = inbound_.begin_mapping();
  }
  if (mapping.parcel == nullptr) return;
  for (const auto& region : mapping.regions) {
    const auto mapped = path_.channel.map(region, Deadline());
    if (!mapped) break;
    mapping.found.emplace_back(region.key, *mapped);
  }
  LockGuard<SpinLock> guard(lock_);
  check(inbound_.finish_mapping(mapping, broken_));
}

void MailEngine::post_planned() {
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

void MailEngine::post_read(MailChunk* chunk) {
  auto ended = [&signals = signals_.in, chunk](const Status& status) {
    if (!status) chunk->error = status.error();
    chunk->ended.store(true, std::memory_order_release);
    signals.reads_ended.fetch_add(1, std::memory_order_release);
  };
  auto transfer = path_.channel.read(chunk->to, chunk->from, {.deadline = {}, .callback = ended});
  LockGuard<SpinLock> guard(lock_);
  MailReads::note_posted(*chunk, std::move(transfer));
}

void MailEngine::end_rest() {
  std::vector<MailOutgoing*> ending;
  {
    LockGuard<SpinLock> guard(lock_);
    ending = outbound_.take_ending();
  }
  for (auto* out : ending) out->regions.clear();
  LockGuard<SpinLock> guard(lock_);
  for (auto* out : ending) outbound_.mark_ended(*out);
}

void MailEngine::progress() {
  Guard guard(*this);
  progress_locked();
}

void MailEngine::progress_locked() {
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

void MailEngine::continue_reads() {
  const auto read = inbound_.read();
  if (read) return;
  break_with(read.error());
  (void)inbound_.read();  // those that have failed by it are over
}

void MailEngine::hear_closing() {
  if (broken_) return;
  const auto error = path_.closed_error();
  inbound_.drop_announced(error);
  break_with(error);
}

void MailEngine::break_with(const Error& error) {
  if (broken_) return;
  const auto taken = inbound_.take_batches();  // a send may be the first to see the end
  broken_ = taken ? error : taken.error();
  signals_.broken.store(true, std::memory_order_release);
  outbound_.end_all(*broken_);
  inbound_.fail_all(*broken_);
  path_.room.receive_memory.leave_line(signals_.in.waiter);
  inbound_.update_front(true);
}

MailStats MailEngine::stats() {
  LockGuard<SpinLock> guard(lock_);
  auto stats = outbound_.stats();
  inbound_.add_to(stats);
  return stats;
}

}  // namespace ferry::mail
