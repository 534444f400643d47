#include "tests/contract/echo.h"

namespace ferry::contract {

namespace {

void answer_ticket(Channel& channel, const transfer::Ticket& ticket) {
  auto text = to_hex(ticket.to_wire());
  must(channel.send(std::as_bytes(std::span(text)), {.deadline = soon()}));
}

struct EchoOrder {
  std::uint64_t rounds = 0;
  WaitMode mode = WaitMode::kAdaptive;
  transfer::Ticket theirs;
};

EchoOrder read_order(std::istringstream& words) {
  EchoOrder order;
  int mode = 0;
  std::string hex;
  if (!(words >> order.rounds >> mode >> hex)) throw std::runtime_error("an incomplete order");
  order.mode = static_cast<WaitMode>(mode);
  order.theirs = ticket_in(hex);
  return order;
}

std::string wrong(std::uint64_t round, const ::testing::AssertionResult& seen) {
  return "round " + std::to_string(round) + ": " + seen.message();
}

}  // namespace

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (auto byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

transfer::Ticket ticket_in(const std::string& hex) {
  std::vector<std::byte> wire(hex.size() / 2);
  for (std::size_t i = 0; i < wire.size(); ++i)
    wire[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return must(transfer::Ticket::from_wire(wire));
}

tensor::Spec u8_spec(std::int64_t bytes) {
  return {tensor::ElementType::kU8, must(tensor::Shape::of({bytes}))};
}

std::size_t echo_size(std::uint64_t round) {
  constexpr std::size_t kSizes[] = {0, 1, 100, 4096, 20'000, 70'001, 300'000, 64, 250'000};
  return kSizes[round % std::size(kSizes)];
}

transfer::DynamicOptions echo_options() {
  transfer::DynamicOptions options;
  options.pad = 4096;
  options.most_pad = 100'000;
  return options;
}

std::string echo_static(Device& device, Channel& channel, std::istringstream& words) {
  std::int64_t bytes = 0;
  words >> bytes;
  auto order = read_order(words);
  auto spec = u8_spec(bytes);
  auto receiver = must(transfer::StaticReceiver::open(device, channel, spec));
  answer_ticket(channel, receiver.ticket());
  auto sender = must(transfer::StaticSender::open(device, channel, order.theirs, spec));
  for (std::uint64_t round = 1; round <= order.rounds; ++round) {
    auto arrival = must(receiver.receive(soon(), order.mode));
    if (auto seen = stamped(arrival.bytes(), round); !seen) return wrong(round, seen);
    must(arrival.release());
    auto out = must(sender.output());
    stamp(out.bytes(), round + kEchoed);
    must(sender.send(out, soon()));
  }
  must(sender.drain(soon()));
  return "ok";
}

std::string echo_dynamic(Device& device, Channel& channel, std::istringstream& words) {
  auto order = read_order(words);
  auto any = u8_spec(-1);
  auto receiver = must(transfer::DynamicReceiver::open(device, channel, any, echo_options()));
  answer_ticket(channel, receiver.ticket());
  auto sender = must(transfer::DynamicSender::open(device, channel, order.theirs, any));
  for (std::uint64_t round = 1; round <= order.rounds; ++round) {
    auto arrival = must(receiver.receive(soon(), order.mode));
    if (arrival.bytes().size() != echo_size(round)) return "a tensor of another size";
    if (auto seen = stamped(arrival.bytes(), round); !seen) return wrong(round, seen);
    must(arrival.release());
    auto out = must(sender.output(u8_spec(static_cast<std::int64_t>(echo_size(round)))));
    stamp(out.bytes(), round + kEchoed);
    must(sender.send(out, soon()));
  }
  must(sender.drain(soon()));
  return "ok";
}

}  // namespace ferry::contract
