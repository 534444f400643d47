#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry train`: trains a model with several processes of this machine.
void add_train(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
