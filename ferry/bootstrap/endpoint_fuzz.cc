#include <cstdint>
#include <cstdlib>

#include "ferry/bootstrap/endpoint.h"

// What is read can be written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ferry::bootstrap::Endpoint;
  auto endpoint = Endpoint::parse({reinterpret_cast<const char*>(data), size});
  if (!endpoint) return 0;
  auto again = Endpoint::parse(endpoint->to_string());
  if (!again || *again != *endpoint) std::abort();
  return 0;
}
