#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ferry::bootstrap {

// Text of strangers, made fit for a log and a terminal.
inline std::string printable(std::string_view text, std::size_t limit) {
  std::string out(text.substr(0, limit));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace ferry::bootstrap
