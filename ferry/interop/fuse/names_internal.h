#pragma once

#include <string>
#include <string_view>

namespace ferry::interop {

// A tensor's name as the path of its folder, without a slash in front: "conv1/w" is "conv1/w".
// Parts that no file can be called ("", ".", ".."), and '%' anywhere, are written as %XX; of a part
// with more than 255 bytes there is no path: then it is empty.
std::string path_of_name(std::string_view name);
// The name that has this path.
std::string name_of_path(std::string_view path);

}  // namespace ferry::interop
