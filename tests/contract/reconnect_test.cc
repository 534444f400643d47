#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class Reconnects : public ContractTest {};

TEST_F(Reconnects, AfterThePeerWasClosedAndOpenedOnTheSamePort) {
  auto device = open_device();
  auto options = device_options();
  for (int i = 0; i < rounds(5); ++i) {
    auto peer = open_device(options);
    options.listen = peer.endpoint();
    auto ends = connect_more(device, peer);
    auto target = make_piece(peer, 64);
    std::byte bytes[64];
    stamp(bytes, static_cast<std::uint64_t>(i));
    must(ends.ab.write(bytes, target.remote));
    EXPECT_TRUE(stamped(target.bytes(), static_cast<std::uint64_t>(i)));
  }
}

TEST_F(Reconnects, GrantsOfADeadDeviceDoNotReachItsSuccessor) {
  auto device = open_device();
  auto options = device_options();
  RemoteRegion old;
  {
    auto peer = open_device(options);
    options.listen = peer.endpoint();
    auto ends = connect_more(device, peer);
    auto target = make_piece(peer, 64);
    old = target.remote;
  }
  auto peer = open_device(options);
  auto ends = connect_more(device, peer);
  auto target = make_piece(peer, 64);
  std::byte bytes[64];
  stamp(bytes, 1);
  EXPECT_NE(code_of(ends.ab.write(bytes, old, {.deadline = soon()}).wait()), Code::kOk);
  for (auto byte : target.bytes()) EXPECT_EQ(byte, std::byte{0});
}

TEST_F(Reconnects, ClosedChannelsToALivePeerCanBeOpenedAgain) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  for (int i = 0; i < rounds(20); ++i) {
    auto ends = connect_more(a(), b());
    must(ends.ab.write(bytes, target.remote));
  }
}

TEST_F(Reconnects, AFailedConnectLeavesNothing) {
  open();
  auto before = a().stats();
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(a().connect("127.0.0.1:1", {.deadline = in(2s)}));
  }
  EXPECT_EQ(a().stats().sessions, before.sessions);
  EXPECT_EQ(a().stats().channels, before.channels);
}

}  // namespace
}  // namespace ferry::contract
