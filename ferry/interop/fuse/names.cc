#include <fmt/format.h>

#include <charconv>

#include "ferry/interop/fuse/names_internal.h"

namespace ferry::interop {
namespace {

constexpr std::size_t kLongestPart = 255;

std::string encoded(std::string_view part) {
  if (part.empty()) return "%00";  // no name has this byte
  const bool all = part == "." || part == "..";
  std::string text;
  for (const char letter : part) {
    if (all || letter == '%' || letter == '\0')
      text += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    else
      text += letter;
  }
  return text;
}

}  // namespace

std::string path_of_name(std::string_view name) {
  std::string path;
  for (std::size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find('/', begin), name.size());
    const auto part = encoded(name.substr(begin, end - begin));
    if (part.size() > kLongestPart) return "";
    if (begin > 0) path += '/';
    path += part;
    begin = end + 1;
  }
  return path;
}

std::string name_of_path(std::string_view path) {
  std::string name;
  for (std::size_t at = 0; at < path.size(); ++at) {
    unsigned value = 0;
    const auto digits = path.substr(at + 1, 2);
    if (path[at] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr == digits.data() + 2) {
      if (value != 0) name += static_cast<char>(value);
      at += 2;
    } else {
      name += path[at];
    }
  }
  return name;
}

}  // namespace ferry::interop
