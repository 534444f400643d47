// Hello world, the receiving process: lends memory to its peers and waits until one has written.
//   hello_receiver   prints its endpoint; give it to hello_sender
#include <cstdio>
#include <string>

#include "ferry/ferry.h"

int main() {
  ferry::fabric::Options options;
  options.secret = "hello, only an example";   // who knows it may join
  auto device = ferry::Device::open(options);  // shared memory or TCP, as the peer can
  if (!device) return std::fprintf(stderr, "%s\n", device.error().to_string().c_str()), 1;
  auto region = device->allocate(64);  // memory that peers can be let at
  if (!region) return std::fprintf(stderr, "%s\n", region.error().to_string().c_str()), 1;
  auto grant = device->grant(*region, ferry::Rights::kWrite);    // peers may write it, not read it
  if (!grant || !device->publish("greeting", *grant)) return 1;  // they find it by this name
  std::printf("%s\n", device->endpoint().c_str());
  std::fflush(stdout);
  // The last word is the flag: once it is 1, every byte before it is there. Nothing was copied
  // here, nothing was received: the bytes are in the region.
  auto arrived =
      device->wait_flag(region->data() + 56, 1, ferry::Deadline::after(std::chrono::seconds(30)));
  if (!arrived) return std::fprintf(stderr, "%s\n", arrived.error().to_string().c_str()), 1;
  std::printf("%s\n", reinterpret_cast<const char*>(region->data()));
}
