// Limit: a plain TCP socket over loopback, received straight into the tensor's memory.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "bench/limits/round.h"

namespace limits {
namespace {

// More loses to the caches.
constexpr int kSocketBuffer = 256 * 1024;

int checked(int result, const char* what) {
  if (result < 0) fail_errno(what);
  return result;
}

template <class T>
void set(int fd, int level, int name, const T& value) {
  checked(setsockopt(fd, level, name, &value, sizeof value), "cannot set a socket option");
}

int new_socket() {
  const int fd = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "cannot make a socket");
  set(fd, SOL_SOCKET, SO_SNDBUF, kSocketBuffer);
  set(fd, SOL_SOCKET, SO_RCVBUF, kSocketBuffer);
  return fd;
}

class Tcp : public Pair {
 public:
  explicit Tcp(Link& link) : link_(link) {
    if (link.side() == Side::kTaker) {
      accept_one();
    } else {
      connect_one();
    }
    set(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
    const timeval minute{60, 0};
    set(fd_, SOL_SOCKET, SO_RCVTIMEO, minute);
    set(fd_, SOL_SOCKET, SO_SNDTIMEO, minute);
  }
  ~Tcp() override { ::close(fd_); }

  void open(std::uint64_t bytes) override { memory_ = Memory(bytes); }
  void close() override { memory_ = Memory(); }
  std::span<std::byte> source() override { return memory_.bytes(); }
  void give(std::uint32_t round) override {
    send_all(memory_.bytes());
    std::uint32_t echo = 0;
    receive_all(std::as_writable_bytes(std::span(&echo, 1)));
    if (echo != round) throw Failure("the answer is not this round's");
  }
  Pieces take(std::uint32_t) override {
    receive_all(memory_.bytes());
    piece_[0] = memory_.bytes();
    return piece_;
  }
  void answer(std::uint32_t round) override { send_all(std::as_bytes(std::span(&round, 1))); }

 private:
  void accept_one() {
    const int listener = new_socket();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    checked(bind(listener, generic, size), "cannot bind to loopback");
    checked(listen(listener, 1), "cannot listen on loopback");
    checked(getsockname(listener, generic, &size), "cannot learn the port");
    std::memcpy(link_.blackboard().data(), &address, sizeof address);
    link_.meet();
    fd_ = checked(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), "cannot accept");
    ::close(listener);
    link_.meet();
  }
  void connect_one() {
    fd_ = new_socket();
    link_.meet();
    sockaddr_in address{};
    std::memcpy(&address, link_.blackboard().data(), sizeof address);
    checked(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address),
            "cannot connect over loopback");
    link_.meet();
  }

  int flags() const { return MSG_NOSIGNAL | (sleep_ ? 0 : MSG_DONTWAIT); }

  // Whether the call is to be tried again.
  bool again(ssize_t count, Link::Patience& patience) {
    if (count == 0) throw Failure("the other side closed its socket");
    if (count > 0) return false;
    if (errno == EINTR) return true;
    if (errno != EAGAIN) fail_errno("the socket failed");
    if (sleep_) throw Failure("nothing moved on the socket for 60 s");
    link_.spin(patience);
    return true;
  }

  void send_all(std::span<const std::byte> bytes) {
    Link::Patience patience;
    while (!bytes.empty()) {
      const auto count = send(fd_, bytes.data(), bytes.size(), flags());
      if (again(count, patience)) continue;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }
  void receive_all(std::span<std::byte> bytes) {
    Link::Patience patience;
    while (!bytes.empty()) {
      const auto count =
          recv(fd_, bytes.data(), bytes.size(), flags() | (sleep_ ? MSG_WAITALL : 0));
      if (again(count, patience)) continue;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  Link& link_;
  int fd_ = -1;
  Memory memory_;
  std::array<std::span<const std::byte>, 1> piece_;
};

}  // namespace
}  // namespace limits

int main() {
  return limits::serve(
      {.name = "tcp",
       .what = "TCP over loopback, a plain socket",
       .min_bytes = 2,
       .make = [](limits::Link& link) { return std::make_unique<limits::Tcp>(link); }});
}
