// Tensors of one shape, the receiving process: uses each one where it landed.
//   tensor_receiver   prints its endpoint; give it to tensor_sender
#include <cstdio>
#include <numeric>
#include <string>

#include "ferry/ferry.h"

int main() {
  auto soon = [] { return ferry::Deadline::after(std::chrono::seconds(30)); };
  auto stop = [](const ferry::Error& error) {
    return std::fprintf(stderr, "%s\n", error.to_string().c_str()), 1;
  };
  ferry::Options options;
  options.secret = "tensors, only an example";
  auto device = ferry::Device::open(options);
  if (!device) return stop(device.error());
  std::printf("%s\n", device->endpoint().c_str());
  std::fflush(stdout);
  auto channel = device->accept(soon());
  if (!channel) return stop(channel.error());
  // Two slots for tensors of 256 x 256 floats. The ticket is plain data: any way to the sender will
  // do, here a small message.
  ferry::Spec spec{ferry::ElementType::kF32, *ferry::Shape::of({256, 256})};
  auto receiver = ferry::StaticReceiver::open(*device, *channel, spec);
  if (!receiver) return stop(receiver.error());
  auto ticket = receiver->ticket().to_wire();
  if (auto sent = channel->send(ticket).wait(); !sent) return stop(sent.error());
  for (int step = 0; step < 3; ++step) {
    auto arrival = receiver->receive(soon());
    if (!arrival) return stop(arrival.error());
    auto values = arrival->tensor().elements<float>();  // the slot itself: nothing was copied here
    std::printf("sum %.0f\n", std::accumulate(values.begin(), values.end(), 0.0));
  }  // the arrival ends here, and the sender may use its slot again
}
