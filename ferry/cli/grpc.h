#pragma once

#include <CLI/App.hpp>
#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// `ferry grpc -- PROGRAM ARGS`: runs a program with the plug-in for gRPC loaded.
void add_grpc(CLI::App& app, int& exit_code);

// Where the plug-in is: beside the program as built, or installed. kNotFound says what to do.
Result<std::string> grpc_plugin_path();
// The setting that loads it into a program, before what is loaded already.
std::string preload_setting(const std::string& library);

}  // namespace ferry::cli
