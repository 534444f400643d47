#include "ferry/interop/launched.h"

#include <cstdlib>

namespace ferry::interop {

Result<ps::WorkerOptions> launched_worker() {
  const char* scheduler = std::getenv("FERRY_PS_SCHEDULER");
  const char* secret = std::getenv("FERRY_SECRET");
  if (scheduler == nullptr || secret == nullptr)
    return fail(Code::kFailedPrecondition,
                "FERRY_PS_SCHEDULER or FERRY_SECRET is not set; start this program with `ferry ps "
                "--local 1x1 -- PROGRAM`");
  ps::WorkerOptions options{.scheduler = scheduler};
  options.device.secret = secret;
  if (const char* provider = std::getenv("FERRY_PROVIDER")) options.device.provider = provider;
  if (const char* spin = std::getenv("FERRY_SPIN"))
    options.device.spin = mail::spin_of_user(std::strtod(spin, nullptr));
  if (const char* rank = std::getenv("FERRY_PS_RANK"))
    options.rank = static_cast<std::uint32_t>(std::strtoul(rank, nullptr, 10));
  return options;
}

}  // namespace ferry::interop
