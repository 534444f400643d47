#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ferry/cli/bench_grpc.h"
#include "ferry/cli/bench_size.h"

namespace ferry::cli {
namespace {

constexpr std::string_view kSizes = "writes by size";

// " 64:12 4K:3" of one connection.
void add_sizes(const std::string& text, std::map<std::uint64_t, std::uint64_t>& sizes) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    if (colon == std::string::npos) continue;
    const auto from = parse_size(word.substr(0, colon));
    if (from) sizes[*from] += std::strtoull(word.c_str() + colon + 1, nullptr, 10);
  }
}

}  // namespace

GrpcStatistics::GrpcStatistics()
    : path_(std::filesystem::temp_directory_path() /
            ("ferry-bench-grpc-" + std::to_string(::getpid()))) {}

GrpcStatistics::~GrpcStatistics() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::string GrpcStatistics::setting() const { return "FERRY_GRPC_STATS=" + path_.string(); }

std::map<std::uint64_t, std::uint64_t> GrpcStatistics::sizes() const {
  std::map<std::uint64_t, std::uint64_t> sizes;
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(kSizes);
    if (at == std::string::npos) continue;
    const auto begin = at + kSizes.size();
    add_sizes(line.substr(begin, line.find(';', begin) - begin), sizes);
  }
  return sizes;
}

}  // namespace ferry::cli
