#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry ps`: one role of a parameter server, or a whole job on this machine.
void add_ps(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
