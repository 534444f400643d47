#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ferry/fabric/device.h"
#include "ferry/interop/c/device.h"
#include "ferry/interop/c/handle_internal.h"
#include "ferry/mail/mailbox.h"
#include "ferry/tensor/tensor.h"

// What handles share: each box has a share in the one below it, which so outlives it.

namespace ferry::interop {

struct DeviceBox {
  explicit DeviceBox(fabric::Device opened)
      : device(std::move(opened)), endpoint(device.endpoint()), id(device.id().to_string()) {}
  fabric::Device device;
  const std::string endpoint;
  const std::string id;
  std::mutex lock;  // of what is made when it is first asked for
  std::optional<mail::MailRoom> room;
};

struct ChannelBox {
  ChannelBox(std::shared_ptr<DeviceBox> of, fabric::Channel opened)
      : device(std::move(of)),
        channel(std::move(opened)),
        provider(channel.provider()),
        peer(channel.peer_endpoint()) {}
  std::shared_ptr<DeviceBox> device;
  fabric::Channel channel;
  const std::string provider;
  const std::string peer;
};

fabric::RemoteRegion remote_of(const ferry_remote& remote);
ferry_remote remote_to_c(const fabric::RemoteRegion& remote);
Result<tensor::Spec> spec_of(const ferry_spec& spec);
ferry_spec spec_to_c(const tensor::Spec& spec);
ferry_tensor tensor_to_c(const tensor::Tensor& tensor);
Result<tensor::Tensor> tensor_of(const ferry_tensor& tensor);
fabric::WaitMode mode_of(int mode);

inline std::span<const std::byte> bytes_of(const void* data, std::uint64_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}
inline std::span<std::byte> bytes_of(void* data, std::uint64_t bytes) {
  return {static_cast<std::byte*>(data), bytes};
}

}  // namespace ferry::interop

struct ferry_device : ferry::interop::OfProcess {
  explicit ferry_device(std::shared_ptr<ferry::interop::DeviceBox> made) : box(std::move(made)) {}
  std::shared_ptr<ferry::interop::DeviceBox> box;
};

struct ferry_channel : ferry::interop::OfProcess {
  explicit ferry_channel(std::shared_ptr<ferry::interop::ChannelBox> made) : box(std::move(made)) {}
  std::shared_ptr<ferry::interop::ChannelBox> box;
};

struct ferry_region : ferry::interop::OfProcess {
  ferry_region(std::shared_ptr<ferry::interop::DeviceBox> of, ferry::fabric::Region made)
      : device(std::move(of)), region(std::move(made)) {}
  std::shared_ptr<ferry::interop::DeviceBox> device;
  ferry::fabric::Region region;
};

struct ferry_transfer : ferry::interop::OfProcess {
  ferry_transfer(std::shared_ptr<ferry::interop::ChannelBox> of, ferry::fabric::Transfer posted)
      : channel(std::move(of)), transfer(std::move(posted)) {}
  std::shared_ptr<ferry::interop::ChannelBox> channel;
  ferry::fabric::Transfer transfer;
};
