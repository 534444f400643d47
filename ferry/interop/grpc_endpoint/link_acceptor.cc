#include <utility>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/link_acceptor_internal.h"

namespace ferry::interop {

namespace {

constexpr auto kAcceptLimit = std::chrono::seconds(60);  // then it is called again

}  // namespace

std::vector<std::byte> LinkAcceptor::expect(const CallToken& token, const LinkThresholds& set,
                                            Arrived arrived) {
  LockGuard<Mutex> guard(lock_);
  if (!std::exchange(accepting_, true)) run_aside([this] { accept_channels(); });
  expected_[token] = {set, std::move(arrived)};
  return CallAnswer{device_.device().endpoint(), token}.encode();
}

void LinkAcceptor::forget(const CallToken& token) {
  LockGuard<Mutex> guard(lock_);
  expected_.erase(token);
}

void LinkAcceptor::accept_channels() {
  for (;;) {
    auto channel = device_.device().accept(Deadline::after(kAcceptLimit));
    if (!channel) continue;
    run_aside([this, shared = std::make_shared<fabric::Channel>(*std::move(channel))] {
      serve(std::move(*shared));
    });
  }
}

void LinkAcceptor::serve(fabric::Channel channel) {
  const auto deadline = Deadline::after(PluginOptions::get().scaled(kLinkLimit));
  CallToken token{};
  const auto said = channel.receive(token, deadline);
  if (!said || *said != token.size()) return;
  if (token == kMeasureToken) return tuner_.measure(std::move(channel));
  Expected call;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = expected_.find(token);
    if (found == expected_.end()) return;
    call = std::move(found->second);
    expected_.erase(found);
  }
  auto link = links_.open(std::move(channel), call.set, deadline);
  if (!link) logger().info("a gRPC client's link was not opened: {}", link.error().to_string());
  call.arrived(link ? *std::move(link) : nullptr);
}

}  // namespace ferry::interop
