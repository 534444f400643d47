// Two network namespaces and a virtual cable: links that go down, and packets that vanish.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "tests/process/kit.h"

namespace ferry::process {
namespace {

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Why there can be no namespaces here; empty if there can.
std::string why_not() {
  return in_child([]() -> std::string {
    if (::unshare(CLONE_NEWNET) != 0) return "unshare of the network: " + text_of_errno(errno);
    if (!run("ip link add va type veth peer name vb")) return "no veth interfaces (ip link add)";
    return "";
  });
}

constexpr std::size_t kTargetBytes = 1 << 20;
constexpr double kImpatient = 0.3;  // a host that acknowledges nothing for 3 s, not 10, is gone

constexpr double kSilenceLimit = 6;

// In seconds, of an error that says that the peer's host is gone; negative for any other. Time in
// which the near end was not scheduled is not in it, so it does not grow with the load.
double silence_in(const std::string& error) {
  static constexpr std::string_view kBefore = "in a silence of ";
  const auto found = error.find(kBefore);
  return found == std::string::npos ? -1 : std::atof(error.c_str() + found + kBefore.size());
}

// What the two sides of one test share.
struct LinkStage {
  std::atomic<int> stage{0};
};

bool reached(LinkStage& shared, int stage) {
  auto deadline = soon();
  while (shared.stage < stage && !deadline.expired()) std::this_thread::sleep_for(2ms);
  return shared.stage >= stage;
}

// The far end: a device in a namespace of its own that lends memory and takes all comers.
void far_end(LinkStage& shared) {
  if (::unshare(CLONE_NEWNET) != 0) return;
  shared.stage = 1;
  if (!reached(shared, 2)) return;
  if (!run("ip addr add 10.77.0.2/24 dev vb && ip link set vb up && ip link set lo up")) return;
  auto options = options_for("tcp");
  options.listen = "10.77.0.2:7000";  // with the usual patience: the near end is to notice first
  auto device = must(Device::open(options));
  auto region = must(device.allocate(kTargetBytes));
  auto grant = must(device.grant(region, Rights::kAll));
  must(device.publish("target", grant));
  shared.stage = 3;
  std::vector<Channel> channels;
  for (;;) {
    auto channel = device.accept(Deadline::after(1s));
    if (channel) channels.push_back(std::move(*channel));
  }
}

Result<Channel> connect(Device& device) {
  return device.connect("10.77.0.2:7000", {.deadline = Deadline::after(5s)});
}

Status copy_for_ever(Channel& channel, const RemoteRegion& target) {
  std::vector<std::byte> bytes(kTargetBytes);
  for (;;) FERRY_TRY(channel.write(bytes, target).wait());
}

// The near end: transfers, breaks the link, expects the named end in time, mends and goes on.
std::string near_end(LinkStage& shared, pid_t far, const std::string& cut,
                     const std::string& mend) {
  if (!run("ip link set lo up")) return "no loopback";
  if (!run("ip link add va type veth peer name vb netns " + std::to_string(far))) return "no veth";
  if (!run("ip addr add 10.77.0.1/24 dev va && ip link set va up")) return "no address";
  shared.stage = 2;
  if (!reached(shared, 3)) return "the far end did not come up";
  auto options = options_for("tcp");
  options.listen = "10.77.0.1:0";
  options.patience = kImpatient;
  auto device = must(Device::open(options));
  auto channel = must(connect(device));
  auto target = must(channel.look_up("target", soon()));
  Status outcome;
  std::atomic<std::int64_t> ended{0};
  std::thread worker([&] {
    outcome = copy_for_ever(channel, target);
    ended = now_ns();
  });
  std::this_thread::sleep_for(200ms);
  auto start = now_ns();
  bool was_cut = run(cut);
  worker.join();
  if (!was_cut) return "cannot cut the link";
  if (outcome.error().code() != Code::kUnavailable) return outcome.error().to_string();
  const auto silence = silence_in(outcome.error().message());
  if (silence < 0 || silence > kSilenceLimit)
    return "not noticed in time: " + outcome.error().to_string();
  // A silent process gets 60 s, and that is what this must not have taken on any machine.
  const auto took = static_cast<double>(ended - start) / 1e9;
  if (took > 30) return fmt::format("took {:.1f} s to be noticed", took);
  if (connect(device)) return "connected over a link that is cut";
  if (!run(mend)) return "cannot mend the link";
  auto deadline = soon();
  auto again = connect(device);
  while (!again && !deadline.expired()) again = connect(device);
  if (!again) return "not over the mended link: " + again.error().to_string();
  target = must(again->look_up("target", soon()));
  std::vector<std::byte> bytes(kTargetBytes);
  must(again->write(bytes, target, {.deadline = soon()}).wait());
  return "";
}

void cut_and_mend(const std::string& cut, const std::string& mend) {
  if (auto reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  auto said = in_child(
      [&]() -> std::string {
        if (::unshare(CLONE_NEWNET) != 0) return "unshare: " + text_of_errno(errno);
        void* memory =
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        auto& shared = *new (memory) LinkStage;
        Child far([&] { far_end(shared); });
        if (!reached(shared, 1)) return "no second namespace";
        return near_end(shared, far.pid(), cut, mend);
      },
      90s);
  EXPECT_EQ(said, "");
}

TEST(Links, ALinkThatGoesDownIsNoticedAndCanBeUsedAgain) {
  cut_and_mend("ip link set va down", "ip link set va up");
}

// A wrong hardware address makes every packet vanish silently on its way.
TEST(Links, PacketsThatVanishAreNoticed) {
  cut_and_mend("ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 dev va nud permanent",
               "ip neigh del 10.77.0.2 dev va");
}

}  // namespace
}  // namespace ferry::process
