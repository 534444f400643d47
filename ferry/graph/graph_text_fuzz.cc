#include <cstdint>
#include <cstdlib>

#include "ferry/graph/graph_text.h"

// What is accepted can be written, and that is read as the same graph.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graph =
      ferry::graph::from_text(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!graph) return 0;
  const auto text = ferry::graph::to_text(*graph);
  if (!text) std::abort();
  const auto again = ferry::graph::from_text(*text);
  if (!again || ferry::graph::to_text(*again) != *text) std::abort();
  return ferry::graph::to_dot(*graph).empty() ? 1 : 0;
}
