#pragma once

#include <sstream>
#include <string>

#include "ferry/mail/mailbox.h"
#include "tests/contract/fixture.h"

// Messages there and back between two processes: what the orders `mail` and `cross` do, and what
// the test does at its end.

namespace ferry::contract {

// One end: a mailbox in a room that is smaller than the largest message.
class MailEnd {
 public:
  MailEnd(Device& device, Channel& channel);

  // Message number `round`, the same on both ends: small, in several parts, large, or larger than
  // every buffer. Its parts are stamped with `seed` and what follows it.
  void send(std::uint64_t round, std::uint64_t seed, WaitMode mode);
  // The next message: "ok", or what is wrong with it.
  std::string take(std::uint64_t round, std::uint64_t seed, WaitMode mode);

  mail::Mailbox& box() { return box_; }

  static constexpr std::uint64_t kLargest = 3;  // a round whose message is larger than every buffer

 private:
  static std::vector<std::size_t> sizes_of(std::uint64_t round);
  mail::MailRoom room_;
  mail::Mailbox box_;
};

// mail ROUNDS MODE: sends every message back with another stamp.
std::string echo_mail(Device& device, Channel& channel, std::istringstream& words);
// cross ROUNDS MODE: sends the largest message, waits until it is sent, and only then takes one.
std::string cross_mail(Device& device, Channel& channel, std::istringstream& words);
constexpr std::uint64_t kMailEchoed = 1'000'000;  // added to the stamp on the way back

}  // namespace ferry::contract
