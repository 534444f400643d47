#pragma once

#include <CLI/App.hpp>
#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// Measures the path between two processes of this host, which is kept in the user's cache of
// tunings then. It is done by a process of its own, so that nothing of it stays in this one.
Status tune_here(const std::string& provider, double seconds);

// Adds the hidden `tune-here`, which tune_here() starts: it prints `ok` or `error <sentence>`.
void add_tune_here(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
