#include "ferry/storage/checkpoint_format_internal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto table = ferry::storage::parse_table(std::as_bytes(std::span(data, size)));
  if (table) FERRY_ASSERT(ferry::storage::table_bytes(*table).size() <= size, "it was in there");
  return 0;
}
