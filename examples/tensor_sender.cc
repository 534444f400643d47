// Tensors of one shape, the sending process: makes each one where it is wanted.
//   tensor_sender HOST:PORT   the endpoint that tensor_receiver printed
#include <algorithm>
#include <array>
#include <cstdio>

#include "ferry/ferry.h"

int main(int argc, char** argv) {
  auto soon = [] { return ferry::Deadline::after(std::chrono::seconds(30)); };
  auto stop = [](const ferry::Error& error) {
    return std::fprintf(stderr, "%s\n", error.to_string().c_str()), 1;
  };
  if (argc != 2) return std::fprintf(stderr, "usage: tensor_sender HOST:PORT\n"), 2;
  ferry::Options options;
  options.secret = "tensors, only an example";
  auto device = ferry::Device::open(options);
  if (!device) return stop(device.error());
  auto channel = device->connect(argv[1]);
  if (!channel) return stop(channel.error());
  std::array<std::byte, ferry::Ticket::kWireBytes> wire;
  if (auto got = channel->receive(wire, soon()); !got) return stop(got.error());
  auto ticket = ferry::Ticket::from_wire(wire);
  if (!ticket) return stop(ticket.error());
  auto sender = ferry::StaticSender::open(*device, *channel, *ticket, ticket->spec);
  if (!sender) return stop(sender.error());
  for (int step = 1; step <= 3; ++step) {
    auto out = sender->output();  // on one host the receiver's slot, else registered memory
    if (!out) return stop(out.error());
    auto values = out->elements<float>();
    std::fill(values.begin(), values.end(), static_cast<float>(step));
    if (auto sent = sender->send(*out, soon()); !sent) return stop(sent.error());
  }
  if (auto drained = sender->drain(soon()); !drained) return stop(drained.error());
}
