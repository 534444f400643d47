#include "tests/contract/mail_echo.h"

namespace ferry::contract {

namespace {

constexpr std::uint64_t kRoomBytes = 1 << 20;

struct MailOrder {
  std::uint64_t rounds = 0;
  WaitMode mode = WaitMode::kAdaptive;
};

MailOrder read_mail_order(std::istringstream& words) {
  MailOrder order;
  int mode = 0;
  if (!(words >> order.rounds >> mode)) throw std::runtime_error("an incomplete order");
  order.mode = static_cast<WaitMode>(mode);
  return order;
}

}  // namespace

MailEnd::MailEnd(Device& device, Channel& channel)
    : room_(must(mail::MailRoom::open(device, {.budget_bytes = kRoomBytes}))),
      box_(must(mail::Mailbox::open(room_, device, channel, {}, soon()))) {}

std::vector<std::size_t> MailEnd::sizes_of(std::uint64_t round) {
  switch (round % 4) {
    case 0:
      return {64};
    case 1:
      return {100, 0, 3000, 7};
    case 2:
      return {200'001, 5, 0, 20'000};
    default:
      return {3 * kRoomBytes + 8};
  }
}

void MailEnd::send(std::uint64_t round, std::uint64_t seed, WaitMode mode) {
  std::vector<std::vector<std::byte>> parts;
  for (auto size : sizes_of(round)) stamp(parts.emplace_back(size), seed++);
  std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  must(box_.send_and_wait(views, soon(), mode));
}

std::string MailEnd::take(std::uint64_t round, std::uint64_t seed, WaitMode mode) {
  auto message = must(box_.receive(soon(), mode));
  auto sizes = sizes_of(round);
  if (message.parts().size() != sizes.size()) return "a message with other parts";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (message.parts()[i].size() != sizes[i]) return "a part of another size";
    if (auto seen = stamped(message.parts()[i], seed + i); !seen)
      return "round " + std::to_string(round) + ": " + seen.message();
  }
  must(message.release());
  return "ok";
}

std::string echo_mail(Device& device, Channel& channel, std::istringstream& words) {
  auto order = read_mail_order(words);
  MailEnd end(device, channel);
  for (std::uint64_t round = 0; round < order.rounds; ++round) {
    if (auto seen = end.take(round, round, order.mode); seen != "ok") return seen;
    end.send(round, round + kMailEchoed, order.mode);
  }
  return "ok";
}

std::string cross_mail(Device& device, Channel& channel, std::istringstream& words) {
  auto order = read_mail_order(words);
  MailEnd end(device, channel);
  for (std::uint64_t round = 0; round < order.rounds; ++round) {
    end.send(MailEnd::kLargest, round + kMailEchoed, order.mode);
    if (auto seen = end.take(MailEnd::kLargest, round, order.mode); seen != "ok") return seen;
  }
  return "ok";
}

}  // namespace ferry::contract
