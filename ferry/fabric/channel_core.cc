#include "ferry/base/waiting.h"
#include "ferry/fabric/channel_core_internal.h"

namespace ferry::fabric {

ChannelCore::ChannelCore(Home home, std::uint32_t number, Provider& provider, std::string why,
                         std::shared_ptr<Lane> lane)
    : home_(std::move(home)),
      number_(number),
      provider_(provider),
      why_(std::move(why)),
      current_(lane.get()) {
  LockGuard<Mutex> guard(lock_);
  lanes_.push_back(std::move(lane));
  shared().open.fetch_add(1);
}

ChannelCore::~ChannelCore() {
  fail(::ferry::fail(Code::kCancelled, "the channel was closed").value());
  home_.closed();
  shared().open.fetch_sub(1);
}

void ChannelCore::replace(std::shared_ptr<Lane> lane) {
  Lane* old = nullptr;
  {
    LockGuard<Mutex> guard(lock_);
    old = current_.load();
    lanes_.push_back(lane);
    current_.store(lane.get(), std::memory_order_release);
  }
  old->close(::ferry::fail(Code::kAborted, "the lane was connected anew").value());
  old->loop().notify();
  lane->loop().notify();
}

void ChannelCore::fail(const Error& cause) {
  failed_.store(true, std::memory_order_release);
  Lane& current = lane();
  current.close(cause);
  current.loop().notify();
}

Status wait_flag(Loop& loop, const std::byte* word, std::uint64_t value, Deadline deadline,
                 WaitMode mode, const ChannelCore* channel) {
  if (reinterpret_cast<std::uintptr_t>(word) % 8 != 0)
    return fail(Code::kInvalidArgument, "a flag is a word aligned to 8 bytes");
  auto reached = [word, value] { return flag_reached(word, value); };
  auto over = [&] {
    return reached() ||
           (channel != nullptr && (channel->failed() || !channel->connection().alive()));
  };
  // Where the peer itself stores the flag, most arrive before it pays to start making progress.
  if (channel != nullptr && mode != WaitMode::kSleep) {
    const Lane& lane = channel->lane();
    for (int look = 0; look < waiting::kFlagLooks && !lane.has_work();
         look += waiting::kFlagLooksPerRun) {
      for (int i = 0; i < waiting::kFlagLooksPerRun; ++i) {
        if (reached()) return {};
        cpu_relax();  // a reader that does not pause takes the line away from the writer
      }
    }
  }
  loop.wait_until(over, deadline, mode);
  if (reached()) return {};
  if (channel != nullptr) {
    FERRY_TRY(channel->connection().check_alive());
    if (channel->failed())
      return fail(Code::kUnavailable, "peer {} closed the channel that writes the flag",
                  channel->connection().identity().endpoint);
  }
  return fail(Code::kDeadlineExceeded, "the flag did not reach {} in time", value);
}

}  // namespace ferry::fabric
