#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class OpenClose : public ContractTest {};

TEST_F(OpenClose, ADeviceListensOnWhatWasNamedAndOnAPortOfItsOwn) {
  auto device = open_device();
  auto host = settings().listen.substr(0, settings().listen.rfind(':') + 1);
  EXPECT_TRUE(device.endpoint().starts_with(host)) << device.endpoint();
  EXPECT_FALSE(device.endpoint().ends_with(":0"));
}

TEST_F(OpenClose, TheProviderIsOnAndSaysWhatItCan) {
  auto device = open_device();
  auto reports = device.providers();
  ASSERT_FALSE(reports.empty());
  bool found = false;
  for (auto& report : reports) {
    if (report.name != settings().provider) continue;
    found = true;
    EXPECT_TRUE(report.on) << report.detail;
    EXPECT_GE(report.capabilities.max_message, 256U);
  }
  EXPECT_TRUE(found);
}

TEST_F(OpenClose, AChannelKnowsBothItsEnds) {
  open();
  EXPECT_EQ(ab().provider(), settings().provider);
  EXPECT_EQ(ba().provider(), settings().provider);
  EXPECT_EQ(ab().peer(), b().id());
  EXPECT_EQ(ba().peer(), a().id());
  EXPECT_EQ(ab().peer_endpoint(), b().endpoint());
  EXPECT_EQ(ba().peer_endpoint(), a().endpoint());
  EXPECT_FALSE(ab().why().empty());
  EXPECT_TRUE(ab().alive());
  EXPECT_TRUE(ba().alive());
}

TEST_F(OpenClose, IdsOfDevicesDiffer) {
  auto first = open_device();
  auto second = open_device();
  EXPECT_NE(first.id(), second.id());
}

TEST_F(OpenClose, AcceptGivesUpAtItsDeadline) {
  auto device = open_device();
  EXPECT_EQ(code_of(device.accept(Deadline::after(20ms))), Code::kDeadlineExceeded);
}

TEST_F(OpenClose, ConnectingToNobodyIsUnavailable) {
  std::string gone;
  {
    auto other = open_device();
    gone = other.endpoint();
  }
  auto device = open_device();
  auto channel = device.connect(gone, {.deadline = soon()});
  EXPECT_EQ(code_of(channel), Code::kUnavailable);
}

TEST_F(OpenClose, NonsenseEndpointsAreInvalid) {
  auto device = open_device();
  for (const char* text : {"", "nowhere", "127.0.0.1", "127.0.0.1:99999", ":", "[::1"}) {
    EXPECT_EQ(code_of(device.connect(text, {.deadline = soon()})), Code::kInvalidArgument) << text;
  }
}

TEST_F(OpenClose, ADifferentSecretIsRefused) {
  auto device = open_device();
  auto options = device_options();
  options.secret = "quite another secret than the suite's";
  auto stranger = open_device(options);
  EXPECT_EQ(code_of(stranger.connect(device.endpoint(), {.deadline = soon()})),
            Code::kUnauthenticated);
  auto deadline = soon();  // the stranger may know before it is counted
  while (device.stats().peers_refused == 0 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(device.stats().peers_refused, 1U);
  EXPECT_EQ(device.stats().sessions, 0U);
}

TEST_F(OpenClose, AnUnknownProviderIsNamed) {
  auto options = device_options();
  options.provider = "pigeon";
  auto device = Device::open(options);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code(), Code::kInvalidArgument);
  EXPECT_NE(device.error().message().find("pigeon"), std::string::npos);
}

TEST_F(OpenClose, ClosingADeviceEndsItsChannelsOnBothSides) {
  open();
  std::byte buffer[16];
  b().close();
  EXPECT_EQ(code_of(ab().receive(buffer, soon())), Code::kUnavailable);
  EXPECT_FALSE(ab().alive());
  pair().ba = {};
  pair().b.reset();
}

TEST_F(OpenClose, ClosingAChannelIsSeenByThePeer) {
  open();
  std::byte buffer[16];
  ab().close();
  EXPECT_FALSE(ab().alive());
  EXPECT_EQ(code_of(ba().receive(buffer, soon())), Code::kUnavailable);
  EXPECT_FALSE(ba().alive());
}

TEST_F(OpenClose, OperationsOnAClosedChannelFailAtOnce) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[8]{};
  ab().close();
  EXPECT_NE(code_of(ab().write(bytes, target.remote).wait()), Code::kOk);
  EXPECT_NE(code_of(ab().send(bytes).wait()), Code::kOk);
  EXPECT_NE(code_of(ab().receive(bytes, soon())), Code::kOk);
}

TEST_F(OpenClose, ManyTimesInARow) {
  for (int i = 0; i < rounds(20); ++i) {
    auto pair = open_pair();
    auto target = make_piece(*pair.b, 64);
    std::byte bytes[64];
    stamp(bytes, static_cast<std::uint64_t>(i));
    must(pair.ab.write(bytes, target.remote));
    EXPECT_TRUE(stamped(target.bytes(), static_cast<std::uint64_t>(i)));
  }
}

TEST_F(OpenClose, BothConnectToEachOtherAtTheSameTime) {
  auto first = open_device();
  auto second = open_device();
  Channel from_first;
  std::thread other(
      [&] { from_first = must(first.connect(second.endpoint(), {.deadline = soon()})); });
  auto from_second = must(second.connect(first.endpoint(), {.deadline = soon()}));
  other.join();
  auto at_first = must(first.accept(soon()));
  auto at_second = must(second.accept(soon()));
  auto target = make_piece(second, 64);
  std::byte bytes[64];
  stamp(bytes, 1);
  must(from_first.write(bytes, target.remote));
  EXPECT_TRUE(stamped(target.bytes(), 1));
  stamp(bytes, 2);
  must(at_first.write(bytes, target.remote));
  EXPECT_TRUE(stamped(target.bytes(), 2));
}

TEST_F(OpenClose, ADeviceConnectsToItself) {
  auto device = open_device();
  auto out = must(device.connect(device.endpoint(), {.deadline = soon()}));
  auto in = must(device.accept(soon()));
  auto target = make_piece(device, 64);
  std::byte bytes[64];
  stamp(bytes, 1);
  must(out.write(bytes, target.remote));
  EXPECT_TRUE(stamped(target.bytes(), 1));
}

}  // namespace
}  // namespace ferry::contract
