#include "ferry/fabric/channel_core_internal.h"

namespace ferry::fabric {

ChannelCore::ChannelCore(std::shared_ptr<DeviceCore> device, std::shared_ptr<Session> session,
                         std::uint32_t number, Provider& provider, std::string why,
                         std::shared_ptr<Lane> lane)
    : device_(std::move(device)),
      session_(std::move(session)),
      number_(number),
      provider_(provider),
      why_(std::move(why)),
      current_(lane.get()) {
  LockGuard<Mutex> guard(lock_);
  lanes_.push_back(std::move(lane));
  device_->channels.fetch_add(1);
}

ChannelCore::~ChannelCore() {
  fail(::ferry::fail(Code::kCancelled, "the channel was closed").value());
  session_->drop_lane(number_);
  device_->channels.fetch_sub(1);
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

}  // namespace ferry::fabric
