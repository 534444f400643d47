#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry mount`: the tensors of a parameter server's job as files.
void add_mount(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
