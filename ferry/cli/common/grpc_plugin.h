#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// Where the plug-in for gRPC is: beside the program as built, or installed. kNotFound says what to
// do.
Result<std::string> grpc_plugin_path();
// The setting that loads it into a program, before what is loaded already.
std::string preload_setting(const std::string& library);

}  // namespace ferry::cli
