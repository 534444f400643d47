#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/suites/grpc.h"
#include "ferry/cli/common/text.h"
#include "ferry/storage/temporary_folder.h"

namespace ferry::bench {
namespace {

constexpr std::string_view kWritesBySize = "writes by size";

// " 64:12 4K:3" of one connection.
void add_sizes(const std::string& text, std::map<std::uint64_t, std::uint64_t>& sizes) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    if (colon == std::string::npos) continue;
    const auto from = cli::parse_size(word.substr(0, colon));
    if (from) sizes[*from] += std::strtoull(word.c_str() + colon + 1, nullptr, 10);
  }
}

}  // namespace

Result<std::unique_ptr<GrpcStatistics>> GrpcStatistics::open() {
  auto folder = FERRY_TRY(storage::make_temporary_folder("ferry-bench-grpc"));
  return std::unique_ptr<GrpcStatistics>(new GrpcStatistics(std::move(folder)));
}

GrpcStatistics::~GrpcStatistics() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string GrpcStatistics::setting() const { return "FERRY_GRPC_STATS=" + file(); }

std::map<std::uint64_t, std::uint64_t> GrpcStatistics::sizes() const {
  std::map<std::uint64_t, std::uint64_t> sizes;
  std::ifstream in(file());
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(kWritesBySize);
    if (at == std::string::npos) continue;
    const auto begin = at + kWritesBySize.size();
    add_sizes(line.substr(begin, line.find(';', begin) - begin), sizes);
  }
  return sizes;
}

}  // namespace ferry::bench
