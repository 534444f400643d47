#pragma once

#include <CLI/App.hpp>

namespace ferry::bench {

// Adds the hidden command `transfer-round`: the library's own pairs for `ferry bench transfer`,
// which speak the protocol of bench/limits/round.h.
void add_bench_round(CLI::App& app, int& exit_code);

}  // namespace ferry::bench
