#include "ferry/cli/common/provider_check.h"

#include "ferry/ferry.h"

namespace ferry::cli {

Result<std::string> try_provider(const std::string& name) {
  fabric::Options options;
  options.provider = name;
  options.arena_bytes = std::size_t{2} << 20;
  auto device = Device::open(options);
  if (device) return device->providers().front().detail;
  // "no provider works: \n  name: reason"; with one provider, the reason is all there is to say.
  const auto& text = device.error().message();
  const auto reason = text.find(": ", text.find('\n'));
  return fail(device.error().code(), "{}",
              reason == std::string::npos ? text : text.substr(reason + 2));
}

}  // namespace ferry::cli
