#pragma once

#include <CLI/App.hpp>
#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// `ferry mount`: the tensors of a parameter server's job as files.
void add_mount(CLI::App& app, int& exit_code);

// What serves the files: beside this program. kUnimplemented says what to do.
Result<std::string> mount_program();

}  // namespace ferry::cli
