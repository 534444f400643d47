#include <chrono>

#include "ferry/ps/server/data_channels_internal.h"

namespace ferry::ps {

DataChannels::DataChannels(fabric::Device& device)
    : device_(device), acceptor_([this] { accept(); }) {}

DataChannels::~DataChannels() {
  stop_ = true;
  acceptor_.join();
}

void DataChannels::accept() {
  while (!stop_) {
    auto channel = device_.accept(Deadline::after(std::chrono::milliseconds(100)));
    if (!channel) continue;
    LockGuard<Mutex> guard(lock_);
    // Those of workers that are gone are known to nobody else, once their ranks have others.
    std::erase_if(channels_,
                  [](const auto& each) { return !each->alive() && each.use_count() == 1; });
    spin_.add(device_, *channel);
    channels_.push_back(std::make_shared<fabric::Channel>(std::move(*channel)));
    came_.notify_all();
  }
}

Result<std::shared_ptr<fabric::Channel>> DataChannels::find(const fabric::DeviceId& device,
                                                            Deadline deadline) {
  LockGuard<Mutex> guard(lock_);
  for (;;) {
    bool came = false;
    for (auto& channel : channels_) {
      if (channel->peer() != device) continue;
      if (channel->alive()) return channel;
      came = true;
    }
    if (came)
      return fail(Code::kUnavailable, "the data channel of device {} has broken",
                  device.to_string());
    if (deadline.expired())
      return fail(Code::kFailedPrecondition,
                  "no data channel of device {} has come to {}; connect first", device.to_string(),
                  device_.endpoint());
    (void)came_.wait_for(lock_, deadline.left());
  }
}

mail::SpinInUse DataChannels::spin() {
  LockGuard<Mutex> guard(lock_);
  return spin_.now();
}

void DataChannels::close() {
  LockGuard<Mutex> guard(lock_);
  for (auto& channel : channels_) channel->close();
}

}  // namespace ferry::ps
