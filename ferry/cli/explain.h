#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry explain`: how each tensor of a program crosses from task to task, and why.
void add_explain(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
