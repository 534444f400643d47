#include "ferry/bootstrap/dial.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "ferry/bootstrap/socket.h"

namespace ferry::bootstrap {
namespace {

constexpr Nanos kShortestPause = std::chrono::milliseconds(5);
constexpr Nanos kLongestPause = std::chrono::milliseconds(320);
// The kernel waits longer and longer for a connection that was dropped once, and a peer may have
// forgotten one that it was too busy for: a fresh one is then sooner. Each try gets twice the time
// of the one before, so that a peer that is merely slow is given what it needs.
constexpr Nanos kFirstTry = std::chrono::seconds(2);
// A connection that is established stands in the peer's backlog, and a fresh one would stand behind
// it: it gets half of the time that is left, up to so many times that of its try.
constexpr int kEstablished = 4;

struct Attempt {
  Result<Dialled> result;
  bool may_try_again = false;
};

Attempt dial_once(const Endpoint& endpoint, const Secret& secret, const Hello& mine,
                  Deadline deadline, Nanos time) {
  const auto late = [](const Error& error) { return error.code() == Code::kDeadlineExceeded; };
  auto socket = connect_tcp(endpoint, std::min(deadline, Deadline::after(time)));
  if (!socket) {
    const auto& error = socket.error();
    return {tl::unexpected<Error>(error), late(error) || error.os_code() == ECONNRESET};
  }
  const auto patience = std::max(time, std::min(deadline.left() / 2, time * kEstablished));
  const auto limit = std::min(deadline, Deadline::after(patience));
  auto joined = join(socket->get(), Role::kConnector, secret, mine, limit);
  if (!joined) {
    const auto& error = joined.error();
    return {tl::unexpected<Error>(error), late(error) || error.code() == Code::kUnavailable};
  }
  return {Dialled{*std::move(socket), *std::move(joined)}};
}

// Between half of the span and all of it, so that those who were turned away together come back one
// by one.
Nanos with_jitter(Nanos span) {
  std::uint32_t random = 0;
  if (!random_bytes(std::as_writable_bytes(std::span(&random, 1)))) return span;
  return span / 2 + Nanos(span.count() / 2 * (random % 1024) / 1024);
}

}  // namespace

Result<Dialled> dial(const Endpoint& endpoint, const Secret& secret, Hello mine, Deadline deadline,
                     const Renew& renew) {
  Nanos pause = kShortestPause;
  Nanos time = kFirstTry;
  std::optional<Error> refusal;  // the last one: it says more than that the time is over
  for (int tries = 1;; ++tries) {
    auto made = dial_once(endpoint, secret, mine, deadline, time);
    if (made.result) return std::move(made.result);
    const auto rest = with_jitter(pause);
    const auto code = made.result.error().code();
    if (code == Code::kUnavailable) refusal = made.result.error();
    if (!made.may_try_again || deadline.left() <= rest) {
      const auto& error =
          code == Code::kDeadlineExceeded && refusal ? *refusal : made.result.error();
      if (tries == 1) return tl::unexpected<Error>(error);
      return tl::unexpected<Error>(Error(error.code(),
                                         fmt::format("{} (tried {} times)", error.message(), tries),
                                         error.os_code(), error.file(), error.line()));
    }
    std::this_thread::sleep_for(rest);
    if (renew) FERRY_TRY(renew(mine));
    pause = std::min(pause * 2, kLongestPause);
    time *= 2;
  }
}

}  // namespace ferry::bootstrap
