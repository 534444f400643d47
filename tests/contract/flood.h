#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/fixture.h"

namespace ferry::contract {

// Messages that nobody reads: what every provider has to leave pending at some point.
class Flood {
 public:
  Flood(Channel& channel, std::size_t bytes) : channel_(channel), bytes_(bytes) {}

  // Sends until one message stays pending for a while. False if the channel never stops taking.
  bool fill(Nanos deadline = std::chrono::seconds(60)) {
    constexpr std::uint64_t kEnough = 200'000;
    while (sent_ < kEnough) {
      post(deadline);
      auto quiet = Deadline::after(patiently(std::chrono::milliseconds(50)));
      while (!transfers_.back().poll()) {
        if (quiet.expired()) return true;
        std::this_thread::yield();
      }
    }
    return false;
  }

  // One more message, behind those that wait.
  void post(Nanos deadline, fabric::Callback callback = {}) {
    auto& message = messages_.emplace_back(bytes_);
    stamp(message, sent_);
    transfers_.push_back(channel_.send(
        message, {.deadline = Deadline::after(deadline), .callback = std::move(callback)}));
    ++sent_;
  }

  // Reads all that was sent at the other end; says what was wrong.
  std::string drain(Channel& receiver) {
    std::vector<std::byte> into(bytes_);
    for (std::uint64_t i = 0; i < sent_; ++i) {
      auto got = receiver.receive(into, soon());
      if (!got) return "message " + std::to_string(i) + ": " + got.error().to_string();
      if (*got != bytes_ || !stamped(into, i)) return "message " + std::to_string(i) + " is wrong";
    }
    for (auto& transfer : transfers_) {
      auto status = transfer.wait();
      if (!status) return status.error().to_string();
    }
    return "";
  }

  Transfer& last() { return transfers_.back(); }
  std::uint64_t sent() const { return sent_; }

 private:
  Channel& channel_;
  std::size_t bytes_;
  std::uint64_t sent_ = 0;
  std::deque<std::vector<std::byte>> messages_;  // the library's until they are sent
  std::deque<Transfer> transfers_;
};

}  // namespace ferry::contract
