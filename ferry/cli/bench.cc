#include "ferry/cli/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/programs.h"

namespace ferry::cli {
namespace {

// Does not return if the program was started.
Status become_bench(std::vector<std::string> words) {
  const auto self = FERRY_TRY(running_program());
  const auto program = program_beside(self, "ferry-bench");
  if (program.empty())
    return fail(Code::kNotFound,
                "there is no ferry-bench beside {}: build it (cmake --build --preset release "
                "--target ferry-bench bench/all), or install it with the rest",
                self);
  words.insert(words.begin(), program);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return fail_errno(errno, "cannot run {}", program);
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench", "Measure, beside the limits and the peers");
  // All that follows is for the other program, --help too.
  command->prefix_command();
  command->set_help_flag();
  command->callback([command, &exit_code] {
    const auto status = become_bench(command->remaining());
    fmt::print(stderr, "ferry bench: {}\n", status.error().message());
    exit_code = kCannotRun;
  });
}

}  // namespace ferry::cli
