#pragma once

#include <cstdint>

namespace ps {

// [begin, end)
class Range {
 public:
  Range() : Range(0, 0) {}
  Range(std::uint64_t begin, std::uint64_t end) : begin_(begin), end_(end) {}

  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t size() const { return end_ - begin_; }

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
};

}  // namespace ps
