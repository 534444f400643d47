// Hello world, the sending process: writes into the receiver's memory.
//   hello_sender host:port   the endpoint that hello_receiver printed
#include <cstdio>
#include <span>

#include "ferry/ferry.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: hello_sender host:port\n"), 2;
  auto soon = ferry::Deadline::after(std::chrono::seconds(30));  // no wait is without an end
  ferry::fabric::Options options;
  options.secret = "hello, only an example";   // the same as the receiver's
  auto device = ferry::Device::open(options);  // a way out of this process
  if (!device) return std::fprintf(stderr, "%s\n", device.error().to_string().c_str()), 1;
  auto channel = device->connect(argv[1]);  // joins the receiver and picks the best path to it
  if (!channel) return std::fprintf(stderr, "%s\n", channel.error().to_string().c_str()), 1;
  auto greeting = channel->look_up("greeting", soon);  // where the receiver wants it
  if (!greeting) return std::fprintf(stderr, "%s\n", greeting.error().to_string().c_str()), 1;
  const char text[] = "hello from the other process";
  // One-sided: the bytes, and then the flag, at offset 56, land while the receiver's program
  // sleeps.
  auto sent = channel->write_flagged(std::as_bytes(std::span(text)), *greeting, {*greeting, 56}, 1);
  if (auto done = sent.wait(); !done)  // the bytes are the library's until now
    return std::fprintf(stderr, "%s\n", done.error().to_string().c_str()), 1;
}
