#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace ferry::cli {

// Wrong options, a missing secret, a host that cannot: nothing was done.
inline constexpr int kCannotRun = 2;

// A program that is made of subcommands: whoever has a main() adds them, then runs it. Used by one
// thread.
class CommandLine {
 public:
  // `name` is how the program is called in what it says of itself.
  CommandLine(std::string description, std::string name);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Subcommands are added to the one, and their callbacks set the other. Both stay where they are.
  CLI::App& app() { return app_; }
  int& exit_code() { return exit_code_; }

  // Reads the command line and FERRY_LOG, does what they say, and returns the exit status. 0 for
  // --help and --version, kCannotRun with a sentence on standard error for a command line that
  // makes no sense, and otherwise what the subcommand says.
  int run(int argc, const char* const* argv);

 private:
  CLI::App app_;
  int exit_code_ = 0;
};

}  // namespace ferry::cli
