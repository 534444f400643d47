#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// Adds `ferry tune`: measures the paths of this host, or to a peer, keeps what mailboxes are to
// use, and shows it with the curves that led to it.
void add_tune(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
