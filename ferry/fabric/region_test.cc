#include "ferry/fabric/region.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "ferry/fabric/device_core_internal.h"

namespace ferry::fabric {
namespace {

Deadline within_a_minute() { return Deadline::after(std::chrono::minutes(1)); }

// Stops the thread that removes a grant, just before it does: the table of grants cannot be
// written.
class StopsAtRemoval {
 public:
  StopsAtRemoval() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memfd:ferry-grants") == std::string::npos ||
          line.find("rw") == std::string::npos)
        continue;
      std::sscanf(line.c_str(), "%lx-%lx", &begin, &end);
    }
    stopped = go_on = false;
    struct sigaction action {};
    action.sa_handler = stop;
    ::sigaction(SIGSEGV, &action, &before_);
    EXPECT_EQ(protect(PROT_READ), 0);
  }
  ~StopsAtRemoval() {
    go_on = true;
    protect(PROT_READ | PROT_WRITE);
    ::sigaction(SIGSEGV, &before_, nullptr);
  }
  static bool wait_until_stopped() {
    auto limit = within_a_minute();
    while (!stopped && !limit.expired()) ::usleep(100);
    return stopped;
  }

  static inline std::atomic<bool> stopped{false};
  static inline std::atomic<bool> go_on{false};

 private:
  static int protect(int how) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that /proc has told
    return ::mprotect(reinterpret_cast<void*>(begin), end - begin, how);
  }
  static void stop(int) {
    stopped = true;
    for (int i = 0; i < 600'000 && !go_on; ++i) ::usleep(100);
    protect(PROT_READ | PROT_WRITE);
  }
  static inline unsigned long begin = 0;
  static inline unsigned long end = 0;
  struct sigaction before_ {};
};

// The memory used to go back to the pool while a grant of it stood: the thread that revokes had
// taken the key, and had yet to remove the grant.
TEST(Region, IsNotClosedWhileAnotherThreadIsAboutToRevokeItsGrant) {
  Options options;
  options.provider = "tcp";
  auto device = DeviceCore::open(options).value();
  auto region = device->allocate(64, Rights::kAll).value();
  const auto remote = device->grant(region, Rights::kAll, GrantTable::kAnyPeer).value();
  Status revoked;
  {
    StopsAtRemoval stopper;
    std::thread revoker([&] { revoked = device->regions->revoke(remote, within_a_minute()); });
    EXPECT_TRUE(stopper.wait_until_stopped());
    const auto closed = region.close(Deadline::after(Nanos(0)));
    EXPECT_FALSE(closed) << "the memory is given up and its grant stands";
    EXPECT_EQ(device->regions->retired_bytes(), 64U);
    StopsAtRemoval::go_on = true;
    revoker.join();
  }
  EXPECT_TRUE(revoked);
  EXPECT_TRUE(region.close(Deadline::after(Nanos(0)))) << "nobody revokes any more";
  EXPECT_EQ(device->regions->retired_bytes(), 0U);
}

}  // namespace
}  // namespace ferry::fabric
