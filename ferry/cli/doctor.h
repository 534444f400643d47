#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// Adds `ferry doctor`.
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
