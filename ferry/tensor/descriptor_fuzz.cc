#include <algorithm>
#include <cstdlib>

#include "ferry/tensor/descriptor.h"

// What is accepted is what the encoder makes of it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span wire(reinterpret_cast<const std::byte*>(data), size);
  auto spec = ferry::tensor::spec_from_wire(wire);
  if (!spec) return 0;
  auto again = ferry::tensor::to_wire(*spec);
  if (!std::equal(wire.begin(), wire.end(), again.begin(), again.end())) std::abort();
  return 0;
}
