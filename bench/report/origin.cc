#include "bench/report/origin.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/report/commit.h"

namespace ferry::bench {
namespace {

using nlohmann::json;

json machine_json(const cli::Setup& setup) {
  return {{"cpu", setup.cpu},
          {"cores", setup.cores},
          {"kernel", setup.kernel},
          {"system", setup.system},
          {"memory_bytes", setup.memory},
          {"memory_available_bytes", setup.memory_available},
          {"transparent_huge_pages", setup.huge_pages},
          {"compiler", setup.compiler},
          {"load", setup.load},
          {"date", setup.date}};
}

// As users type it: `ferry bench` runs this program.
std::vector<std::string> typed_command() {
  std::vector<std::string> words = {"ferry", "bench"};
  std::ifstream file("/proc/self/cmdline");
  std::string program;
  std::getline(file, program, '\0');
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

json origin_json(const std::string& tool, const cli::Setup& setup) {
  return {{"tool", tool},
          {"command", typed_command()},
          {"version", FERRY_VERSION},
          {"commit", kCommit},
          {"setup", machine_json(setup)}};
}

json estimate_json(const cli::Estimate& estimate) {
  const bool interval = estimate.has_interval();
  return {{"median", estimate.median},
          {interval ? "low" : "min", estimate.low},
          {interval ? "high" : "max", estimate.high},
          {"repetitions", estimate.count}};
}

}  // namespace ferry::bench
