#include "ferry/cli/step_bound.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"
#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

constexpr std::size_t kSocketPiece = std::size_t{1} << 20;
constexpr Nanos kSocketTime = std::chrono::milliseconds(400);

// Two ends of a connection over the loopback.
Result<std::pair<Fd, Fd>> connect_loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* at = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Fd from(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || !from || bind(listener.get(), at, length) != 0 ||
      listen(listener.get(), 1) != 0 || getsockname(listener.get(), at, &length) != 0 ||
      connect(from.get(), at, length) != 0)
    return fail_errno(errno, "cannot connect over the loopback");
  Fd to(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!to) return fail_errno(errno, "cannot connect over the loopback");
  return std::pair(std::move(from), std::move(to));
}

std::string part_text(double part, double whole) {
  return fmt::format("{:.1f} ms ({:.0f} %)", part * 1e3, part / whole * 100);
}

std::string carrying_text(const StepBound& bound) {
  if (bound.path == StepPath::kMemory)
    return fmt::format("the memory needs {} to write and read gradients and weights, {}",
                       part_text(bound.carrying, bound.step), size_text(bound.bytes));
  return fmt::format("a plain TCP socket needs {} for the {} sent",
                     part_text(bound.carrying, bound.step), size_text(bound.bytes));
}

std::string larger_part(const StepBound& bound) {
  const auto larger = std::max(bound.computation, bound.carrying);
  if (larger > bound.step)
    return "what bounds it cannot be told: the machine was busier when that was measured";
  if (larger < bound.step / 2)
    return "neither is half of it: the tasks wait for each other and for cores";
  return bound.computation >= bound.carrying ? "computation bounds it" : "its bytes bound it";
}

}  // namespace

std::string_view name_of(StepPath path) {
  if (path == StepPath::kMemory) return "memory";
  return path == StepPath::kSocket ? "socket" : "other";
}

std::string StepBound::sentence() const {
  auto text = fmt::format("a step takes {:.1f} ms", step * 1e3);
  if (computation > 0)
    text += fmt::format(
        "; {} takes {}",
        emulated ? "emulated computation, asleep," : "the computation of one worker alone",
        part_text(computation, step));
  if (carrying > 0) text += "; " + carrying_text(*this);
  if (computation > 0 && carrying > 0) text += ": " + larger_part(*this);
  return text;
}

Result<double> socket_speed() {
  auto [from, to] = FERRY_TRY(connect_loopback());
  const auto begun = now_ns();
  const auto until = Deadline::after(kSocketTime);
  std::jthread sender([end = std::move(from), until] {
    const std::vector<std::byte> bytes(kSocketPiece, std::byte{1});
    while (!until.expired() && send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
    (void)shutdown(end.get(), SHUT_WR);
  });
  std::vector<std::byte> bytes(kSocketPiece);
  double received = 0;
  for (;;) {
    const auto got = recv(to.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) break;  // the sender is done
    received += static_cast<double>(got);
  }
  return received / static_cast<double>(now_ns() - begun) * 1e9;
}

}  // namespace ferry::cli
