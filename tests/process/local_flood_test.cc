// The local socket of shared memory, which anybody on the machine can connect to.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "ferry/base/log.h"
#include "ferry/fabric/shm/service_internal.h"
#include "tests/process/kit.h"

namespace ferry::process {
namespace {

// The name of the local socket that a device of this process listens on.
std::string own_local_socket() {
  std::set<std::string> own;  // inodes of this process's sockets
  for (int fd = 0; fd < 1000; ++fd) {
    char link[64] = {};
    auto path = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(path.c_str(), link, sizeof link - 1) <= 0) continue;
    std::string target = link;
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, inode, path;
    fields >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
    if (flags == "00010000" && path.starts_with("@ferry-") && own.contains(inode))
      return path.substr(1);
  }
  return "";
}

// Connects to the socket without a pause, as another user if this one may become one.
void flood(const std::string& name) {
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, name.data(), name.size());
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  for (;;) {
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), length);
  }
}

// The floods are forked while this process has no threads, and are told the name of the socket
// later.
std::string connect_beside_floods() {
  Fd log(::memfd_create("log", MFD_CLOEXEC));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  Fd in(ends[0]);
  Fd out(ends[1]);
  std::vector<std::unique_ptr<Child>> floods;
  for (int i = 0; i < 2; ++i) {
    floods.push_back(std::make_unique<Child>([&] {
      char name[100] = {};
      if (::read(in.get(), name, 38) == 38) flood(name);
    }));
  }
  ::dup2(log.get(), STDERR_FILENO);
  set_log_level("warn");
  auto device = open_device("shm");
  auto name = own_local_socket();
  if (name.size() != 38) return "no socket found: '" + name + "'";
  for (int i = 0; i < 2; ++i)
    if (::write(out.get(), name.data(), name.size()) < 0) return "no flood";
  std::this_thread::sleep_for(200ms);
  std::string problem;
  for (int i = 0; i < 4 && problem.empty(); ++i) {
    auto honest = open_device("shm");
    auto channel = honest.connect(device.endpoint(), {.deadline = Deadline::after(40s)});
    if (!channel) problem = channel.error().to_string();
    if (channel) must(device.accept(soon()));
  }
  floods.clear();
  struct stat info {};
  ::fstat(log.get(), &info);
  if (info.st_size > 20'000) problem += " bytes of log: " + std::to_string(info.st_size);
  return problem;
}

TEST(LocalFlood, NeitherFillsTheLogNorKeepsMembersOut) {
  EXPECT_EQ(in_child(connect_beside_floods, 200s), "");
}

class HeldNewcomers {
 public:
  HeldNewcomers() { fabric::shm::hold_newcomers = true; }
  ~HeldNewcomers() { fabric::shm::hold_newcomers = false; }
};

// The local socket used to be all or nothing: where it failed, connect() did.
TEST(LocalFlood, TcpIsUsedWhereSharedMemoryDoesNotComeUp) {
  auto device = open_device("auto");
  auto honest = open_device("auto");
  HeldNewcomers held;
  auto channel = must(honest.connect(device.endpoint(), {.deadline = Deadline::after(12s)}));
  EXPECT_EQ(channel.provider(), "tcp");
  EXPECT_NE(channel.why().find("not shm: "), std::string::npos) << channel.why();
  auto other_end = must(device.accept(soon()));
  auto region = must(device.allocate(4096));
  auto grant = must(device.grant(region, Rights::kWrite));
  std::vector<std::byte> bytes(4096, std::byte{7});
  must(channel.write(bytes, grant, {.deadline = soon()}).wait());
  EXPECT_EQ(region.data()[4095], std::byte{7});
}

TEST(LocalFlood, WithSharedMemoryAloneTheReasonIsNamedAtTheDeadline) {
  auto device = open_device("shm");
  auto honest = open_device("shm");
  auto first = must(honest.connect(device.endpoint(), {.deadline = soon()}));
  {
    HeldNewcomers held;
    std::string said;
    // A machine may be too busy to come as far as the local socket in time.
    for (auto time = 200ms; said.find("local socket") == said.npos && time < 10s; time *= 2) {
      auto channel =
          honest.connect(device.endpoint(), {.lane = 1, .deadline = Deadline::after(time)});
      ASSERT_EQ(code_of(channel), Code::kDeadlineExceeded);
      said = channel.error().message();
    }
    EXPECT_NE(said.find("local socket"), std::string::npos) << said;
  }
  EXPECT_EQ(code_of(honest.connect(device.endpoint(), {.lane = 1, .deadline = soon()})), Code::kOk);
}

}  // namespace
}  // namespace ferry::process
