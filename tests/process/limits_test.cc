// What the operating system refuses: each refusal has a name, and passes.

#include <sys/resource.h>

#include "tests/contract/leaks.h"
#include "tests/process/kit.h"

namespace ferry::process {
namespace {

TEST(Limits, APortInUseIsNamed) {
  auto first = open_device("tcp");
  auto options = options_for("tcp");
  options.listen = first.endpoint();
  auto second = Device::open(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kAlreadyExists);
  EXPECT_NE(second.error().message().find(first.endpoint()), std::string::npos)
      << second.error().message();
}

TEST(Limits, AnAddressThatIsNotOursIsNamed) {
  auto options = options_for("tcp");
  options.listen = "203.0.113.1:0";
  auto device = Device::open(options);
  ASSERT_FALSE(device);
  EXPECT_NE(device.error().message().find("203.0.113.1"), std::string::npos);
}

void allow_descriptors(rlim_t more) {
  // The folder lists itself, "." and ".." too.
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = contract::count_entries("/proc/self/fd") - 3 + more;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Descriptors run out at every step of opening and connecting; with enough of them it works.
std::string starve(const std::string& provider) {
  auto peer = open_device(provider);
  auto before = contract::current_holdings();
  bool worked = false;
  for (rlim_t more = 0; more < 60 && !worked; ++more) {
    allow_descriptors(more);
    auto device = Device::open(options_for(provider));
    if (!device && device.error().code() != Code::kResourceExhausted &&
        device.error().code() != Code::kUnavailable) {
      return "opening: " + device.error().to_string();
    }
    if (device) {
      auto channel = device->connect(peer.endpoint(), {.deadline = Deadline::after(2s)});
      worked = channel.has_value();
      if (!channel && channel.error().code() != Code::kResourceExhausted &&
          channel.error().code() != Code::kUnavailable &&
          channel.error().code() != Code::kDeadlineExceeded) {
        return "connecting: " + channel.error().to_string();
      }
    }
  }
  allow_descriptors(1000);
  if (!worked) return "never worked";
  // Channels that wait to be accepted are held, also when their peer has gone.
  while (peer.accept(Deadline::after(100ms))) {
  }
  return contract::leaked_since(before);
}

TEST(Limits, RunningOutOfDescriptorsIsNamedAndLeaksNothingOnTcp) {
  EXPECT_EQ(in_child([] { return starve("tcp"); }, 120s), "");
}

TEST(Limits, RunningOutOfDescriptorsIsNamedAndLeaksNothingOnShm) {
  EXPECT_EQ(in_child([] { return starve("shm"); }, 120s), "");
}

// A device without descriptors refuses newcomers, keeps its channels, and recovers.
std::string refuse_newcomers() {
  auto device = open_device("tcp");
  Bystander bystander(device, "tcp");
  auto newcomer = open_device("tcp");
  allow_descriptors(2);
  auto refused = newcomer.connect(device.endpoint(), {.deadline = Deadline::after(2s)});
  if (refused) return "connected without descriptors";
  if (auto complaint = bystander.complaint(); !complaint.empty()) return complaint;
  allow_descriptors(1000);
  auto deadline = soon();
  Code last = Code::kUnknown;
  while (last != Code::kOk && !deadline.expired()) {
    last = code_of(newcomer.connect(device.endpoint(), {.deadline = soon()}));
  }
  return last == Code::kOk ? "" : "does not recover";
}

TEST(Limits, ADeviceWithoutDescriptorsKeepsItsChannels) {
  EXPECT_EQ(in_child(refuse_newcomers), "");
}

}  // namespace
}  // namespace ferry::process
