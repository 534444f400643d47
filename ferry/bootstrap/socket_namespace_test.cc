#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ferry/bootstrap/socket.h"

// What needs a network of its own: each test runs in a child process in a new network namespace.
#include "ferry/bootstrap/hello_pair_internal.h"

namespace ferry::bootstrap {
namespace {

constexpr int kPassed = 0;
constexpr int kFailed = 1;
constexpr int kCannotTry = 2;

bool set_loopback(bool up) {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = up ? IFF_UP | IFF_RUNNING : 0;
  Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::ioctl(control.get(), SIOCSIFFLAGS, &request) == 0;
}

void run_in_own_network(int (*test)()) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Root needs no user namespace, which a process with threads could not enter.
    bool apart = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    ::_exit(apart && set_loopback(true) ? test() : kCannotTry);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotTry) GTEST_SKIP() << "no network namespaces for this user here";
  EXPECT_EQ(WEXITSTATUS(status), kPassed);
}

// A connect to a free port of the ephemeral range may get that very port as its own, and then TCP
// lets it meet itself. With one ephemeral port it always does.
TEST(SocketNamespaceTest, DoesNotConnectToItself) {
  run_in_own_network([] {
    constexpr std::string_view kOnly = "40000 40000";
    Fd range(::open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC));
    if (::write(range.get(), kOnly.data(), kOnly.size()) != static_cast<ssize_t>(kOnly.size()))
      return kCannotTry;
    auto fd = connect_tcp({"127.0.0.1", 40000}, soon());
    return !fd && fd.error().os_code() == ECONNREFUSED ? kPassed : kFailed;
  });
}

// The peer's host vanishes: nobody closes anything. Without the timeout the wait would last until
// its deadline.
TEST(SocketNamespaceTest, ALinkThatGoesSilentEndsTheConnection) {
  run_in_own_network([] {
    auto listener = listen_tcp({"127.0.0.1", 0}, 4);
    auto fd = connect_tcp(*local_endpoint(listener->get()), soon());
    if (!fd || !set_user_timeout(fd->get(), std::chrono::milliseconds(1000))) return kFailed;
    if (!set_loopback(false)) return kCannotTry;
    std::byte byte;
    auto got = receive_all(fd->get(), {&byte, 1}, soon());
    return !got && got.error().code() == Code::kUnavailable ? kPassed : kFailed;
  });
}

}  // namespace
}  // namespace ferry::bootstrap
