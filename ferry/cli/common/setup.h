#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ferry::cli {

// The machine a figure came from.
struct Setup {
  std::string cpu;
  int cores = 0;
  std::string kernel;
  std::string system;
  std::uint64_t memory = 0;
  std::uint64_t memory_available = 0;
  std::string huge_pages;
  std::string compiler;
  double load = 0;
  std::string date;
};

Setup read_setup();

// For the head of a report, one fact a line.
std::vector<std::string> setup_lines(const Setup& setup);

}  // namespace ferry::cli
