#include "ferry/cli/common/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "ferry/base/log.h"

namespace ferry::cli {
namespace {

void obey_log_variable() {
  const char* level = std::getenv("FERRY_LOG");
  if (level == nullptr || *level == '\0' || set_log_level(level)) return;
  fmt::print(stderr, "ferry: FERRY_LOG={} is ignored; it is one of {}\n", level,
             fmt::join(kLogLevels, ", "));
}

// An empty value is most often a shell variable that is not set; doing something else than what was
// meant would be worse than doing nothing.
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator filled(
      [](std::string& value) { return value.empty() ? "the value is empty" : std::string(); }, "");
  for (auto* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(filled);
  }
  for (auto* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_empty_values(*command);
}

// The subcommand that the command line got to, and its name with those above it.
struct Reached {
  CLI::App* app;
  std::string name;
};

Reached reached_by(CLI::App& app) {
  Reached reached{&app, app.get_name()};
  while (!reached.app->get_subcommands().empty()) {
    reached.app = reached.app->get_subcommands().back();
    reached.name += " " + reached.app->get_name();
  }
  return reached;
}

// The subcommands in --help.
std::vector<std::string> shown_subcommands(CLI::App& app) {
  std::vector<std::string> names;
  for (auto* command : app.get_subcommands([](CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

std::string sentence_of(const CLI::ParseError& error, CLI::App& app) {
  const auto names = shown_subcommands(app);
  const auto words = app.remaining();
  if (names.empty() || !app.get_subcommands().empty()) {
    const auto option =
        std::find_if(words.begin(), words.end(), [](const auto& word) { return word[0] == '-'; });
    return option == words.end() ? error.what() : fmt::format("unknown option '{}'", *option);
  }
  if (words.empty()) return fmt::format("a subcommand is missing: {}", fmt::join(names, ", "));
  return fmt::format("unknown {} '{}'; {} {}", words[0][0] == '-' ? "option" : "subcommand",
                     words[0], words[0][0] == '-' ? "the subcommands are" : "it is one of",
                     fmt::join(names, ", "));
}

int explain(const CLI::ParseError& error, CLI::App& app) {
  // --help and --version end the parse in this way too.
  if (error.get_exit_code() == 0) return app.exit(error);
  const auto reached = reached_by(app);
  fmt::print(stderr, "{0}: {1}\nRun `{0} --help` for more.\n", reached.name,
             sentence_of(error, *reached.app));
  return kCannotRun;
}

}  // namespace

CommandLine::CommandLine(std::string description, std::string name)
    : app_(std::move(description), std::move(name)) {
  app_.require_subcommand(1);
  app_.set_version_flag("--version", FERRY_VERSION);
  app_.footer("FERRY_LOG=trace|debug|info|warn|error|off sets what is logged on standard error.");
}

int CommandLine::run(int argc, const char* const* argv) {
  obey_log_variable();
  refuse_empty_values(app_);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(error, app_);
  }
  return exit_code_;
}

}  // namespace ferry::cli
