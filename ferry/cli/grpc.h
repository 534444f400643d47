#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry grpc -- PROGRAM ARGS`: runs a program with the plug-in for gRPC loaded.
void add_grpc(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
