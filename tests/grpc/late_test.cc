#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/grpc/kit.h"
#include "tests/grpc/serve.h"
#include "tests/stall.h"

// A server's connection ends, and its memory is used for other calls, while this process is just
// about to copy an answer out of it: what the program gets is an error or whole. See
// docs/design/late-readers.md.

namespace {

using ferry::StallPoint;
using ferry::test::Echo;
using ferry::test::Words;
using ferry::trial::Stall;

ferry::Deadline soon() { return ferry::Deadline::after(std::chrono::seconds(20)); }

// Bytes that belong to no protocol, on all connections of this process to the server: it ends them,
// whatever this process is doing.
int say_garbage_to(int port) {
  int told = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    const bool v6 = peer.sin_family == AF_INET6;  // its port is at the same place
    if (!(v6 || peer.sin_family == AF_INET) || ntohs(peer.sin_port) != port) continue;
    const auto garbage = stamped(500, 5);
    if (::send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0) ++told;
  }
  return told;
}

// Why nobody can be stopped here; empty: the plug-in is part of this program.
std::string cannot_stop() {
#ifdef FERRY_SHARES_STALLS
  return "";
#else
  return "the plug-in, if any, is a library with hooks of its own";
#endif
}

// Other clients, whose calls use what memory the server has to give.
void use_memory_of(const Server& server) {
  for (int clients = 0; clients < 3; ++clients) {
    const auto client = start_program({"/proc/self/exe", "--client", server.address(), "5"}, {});
    EXPECT_EQ(wait_for(client.pid), 0);
    ::close(client.input);
    ::close(client.output);
  }
}

// Ends the connection of whoever is stopped, and lets it go on when its server's memory is used
// for something else.
void end_connection_meanwhile(const Server& server) {
  EXPECT_GT(say_garbage_to(server.port()), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  use_memory_of(server);
}

// The server's memory is mapped here. The program holds so many answers that further ones are
// copied.
TEST(GrpcLate, AnAnswerThatIsCopiedOutOfMappedMemoryIsWhole) {
  if (const auto why = cannot_stop(); !why.empty()) GTEST_SKIP() << why;
  constexpr std::size_t kBytes = 40 << 10;
  constexpr std::size_t kMost = 200;
  Server server({.environment = {{"FERRY_GRPC_PROVIDER", "shm"}}});
  Stall stall(StallPoint::kCopyLent);
  std::vector<grpc::ByteBuffer> kept(kMost);
  std::atomic<std::size_t> whole{0};
  std::thread caller([&] {
    const auto channel = server.channel();
    for (std::size_t i = 0; i < kMost; ++i) {
      grpc::Slice slice(stamped(kBytes, i));
      if (!call_raw(channel, kRawMethod, grpc::ByteBuffer(&slice, 1), &kept[i]).ok()) break;
      whole = i + 1;
      if (Stall::reached()) break;
    }
  });
  const bool stopped = Stall::await(soon());
  if (stopped) end_connection_meanwhile(server);
  Stall::let_go();
  caller.join();
  ASSERT_TRUE(stopped);
  for (std::size_t i = 0; i < whole; ++i)
    EXPECT_TRUE(text_of(kept[i]) == stamped(kBytes, i)) << "answer " << i << " of " << whole;
}

}  // namespace
