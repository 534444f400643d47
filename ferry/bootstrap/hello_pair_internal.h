#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ferry/bootstrap/hello.h"

// For tests: the two sides of a handshake, with every byte between them in sight.
namespace ferry::bootstrap {

inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

inline const Secret kSecret = *Secret::from_text("a secret of the whole cluster");

inline Hello connector_hello() {
  Hello hello;
  hello.purpose = Purpose::kLane;
  hello.device.fill(0x11);
  hello.session = 0x123456789abcdef0;
  hello.lane = 3;
  hello.blob = {std::byte{1}, std::byte{2}, std::byte{3}};
  return hello;
}

inline Hello acceptor_hello() {
  Hello hello;
  hello.device.fill(0x22);
  hello.session = 77;
  hello.blob.assign(100, std::byte{4});
  return hello;
}

inline std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (auto b : bytes) out += fmt::format("{:02x}", std::to_integer<int>(b));
  return out;
}

struct Pair {
  // Sees, and may change, what travels; `at` is the position of its first byte in the stream.
  using Hook = std::function<void(std::vector<std::byte>& bytes, std::size_t at)>;

  Pair(const Secret& a, const Secret& b, Hello from_a = connector_hello(),
       Hello from_b = acceptor_hello(), Admit admit = {})
      : connector(*Handshake::open(Role::kConnector, a, std::move(from_a))),
        acceptor(*Handshake::open(Role::kAcceptor, b, std::move(from_b), std::move(admit))) {}

  // Carries bytes until both are silent, then ends both streams.
  void run() {
    while (carry(connector, acceptor, sent_by_connector, to_acceptor_hook, acceptor_error) ||
           carry(acceptor, connector, sent_by_acceptor, to_connector_hook, connector_error)) {
    }
    end(connector, connector_error);
    end(acceptor, acceptor_error);
  }

  Handshake connector;
  Handshake acceptor;
  std::size_t fragment = 0;  // 0: as much as there is
  Hook to_acceptor_hook;
  Hook to_connector_hook;
  std::vector<std::byte> sent_by_connector;
  std::vector<std::byte> sent_by_acceptor;
  std::optional<Error> connector_error;
  std::optional<Error> acceptor_error;

 private:
  bool carry(Handshake& from, Handshake& to, std::vector<std::byte>& sent, const Hook& hook,
             std::optional<Error>& error) {
    auto output = from.output();
    if (output.empty()) return false;
    auto count = fragment == 0 ? output.size() : std::min(fragment, output.size());
    std::vector<std::byte> bytes(output.begin(), output.begin() + std::ptrdiff_t(count));
    from.consumed_output(count);
    auto at = sent.size();
    sent.insert(sent.end(), bytes.begin(), bytes.end());
    if (hook) hook(bytes, at);
    auto taken = to.consume(bytes);
    if (!taken && !error) error = taken.error();
    return true;
  }

  static void end(Handshake& side, std::optional<Error>& error) {
    auto closed = side.peer_closed();
    if (!closed && !error) error = closed.error();
  }
};

}  // namespace ferry::bootstrap
