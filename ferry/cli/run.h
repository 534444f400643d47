#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry run`: the tasks of a cluster file, all of them here or one of them.
void add_run(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
