// A user's program, built against an installed copy of the library: one device writes into the
// memory of another.
#include <ferry/ferry.h>

#include <cstdio>
#include <cstring>

ferry::Status run() {
  auto receiver =
      FERRY_TRY(ferry::Device::open({.provider = "tcp", .secret = "only for this test"}));
  auto sender = FERRY_TRY(ferry::Device::open({.provider = "tcp", .secret = "only for this test"}));
  auto source = FERRY_TRY(sender.allocate(64));
  auto target = FERRY_TRY(receiver.allocate(64));
  auto grant = FERRY_TRY(receiver.grant(target, ferry::Rights::kWrite));
  auto channel = FERRY_TRY(sender.connect(receiver.endpoint()));
  std::strcpy(reinterpret_cast<char*>(source.data()), "ferried");
  FERRY_TRY(channel.write(source.bytes(), grant).wait());
  std::puts(reinterpret_cast<const char*>(target.data()));
  if (std::memcmp(target.data(), "ferried", 8) == 0) return {};
  return ferry::fail(ferry::Code::kDataLoss, "the bytes did not arrive");
}

int main() {
  auto status = run();
  if (!status) std::puts(status.error().to_string().c_str());
  return status ? 0 : 1;
}
