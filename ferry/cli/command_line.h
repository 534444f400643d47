#pragma once

namespace ferry::cli {

// Wrong options, a missing secret, a host that cannot: nothing was done.
inline constexpr int kCannotRun = 2;

// The whole program: reads the command line and FERRY_LOG, does what they say, and returns the exit
// status. 0 for --help and --version, kCannotRun with a sentence on standard error for a command
// line that makes no sense, and otherwise what the subcommand says.
int run_command_line(int argc, const char* const* argv);

}  // namespace ferry::cli
