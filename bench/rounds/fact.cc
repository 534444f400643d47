#include "bench/rounds/fact.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>

#include "bench/rounds/need.h"

namespace ferry::bench {
namespace {

using Measure = double (*)(const FactSetting&);
const std::map<std::string, Measure> kMeasures = {
    {"connect", measure_connect}, {"regions", measure_regions}, {"syscalls", measure_syscalls},
    {"crowd", measure_crowd},     {"server", measure_server},   {"mesh", measure_mesh}};

int run_fact(const FactSetting& setting) {
  try {
    fmt::print("ok value={}\n", kMeasures.at(setting.name)(setting));
    return 0;
  } catch (const std::exception& error) {
    std::string sentence = error.what();
    std::replace(sentence.begin(), sentence.end(), '\n', ' ');
    fmt::print("error {}\n", sentence);
    return 1;
  }
}

}  // namespace

void add_bench_fact(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("fact", "One figure");
  command->group("");  // not in --help: the driver starts it
  auto setting = std::make_shared<FactSetting>();
  command->add_option("name", setting->name)->required()->check(CLI::IsMember(kMeasures));
  command->add_option("--provider", setting->provider);
  command->add_option("--bytes", setting->bytes)->check(CLI::Range(16, 64 << 20));
  command->add_option("--clients", setting->clients)->check(CLI::Range(1, Team::kMost - 1));
  command->add_option("--seconds", setting->seconds)->check(CLI::Range(0.01, 20.0));
  command->callback([setting, &exit_code] { exit_code = run_fact(*setting); });
}

}  // namespace ferry::bench
