#pragma once

#include <fstream>
#include <string>

#include "tests/contract/fixture.h"

// What long runs must not take more and more of.

namespace ferry::contract {

// The address sanitizer keeps what was freed for a while, the thread sanitizer notes of what it
// saw.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kResidentSlackKib = 512 * 1024;
#else
constexpr std::uint64_t kResidentSlackKib = 16 * 1024;
#endif

inline std::uint64_t kib_of(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    std::uint64_t value = 0;
    if (word == key && lines >> value) return value;
  }
  return 0;
}

struct Held {
  std::size_t in_use_a, in_use_b, arenas;
  std::uint64_t grants, resident_kib;
  Holdings rest;
};

inline Held held_by(Device& a, Device& b) {
  auto at_a = a.stats();
  auto at_b = b.stats();
  return {at_a.memory.in_use,
          at_b.memory.in_use,
          at_a.memory.arena_bytes + at_b.memory.arena_bytes,
          at_a.grants + at_b.grants,
          kib_of("/proc/self/status", "VmRSS:"),
          current_holdings()};
}

// `slack`: of memory that each device keeps to use it again, as its timing happens to want it.
inline void expect_flat(const Held& early, const Held& late, std::size_t slack = 0) {
  EXPECT_LE(late.in_use_a, early.in_use_a + slack);
  EXPECT_LE(late.in_use_b, early.in_use_b + slack);
  EXPECT_EQ(late.arenas, early.arenas);
  EXPECT_EQ(late.grants, early.grants);
  EXPECT_LE(late.resident_kib, early.resident_kib + kResidentSlackKib);
  EXPECT_EQ(leaked_since(early.rest), "");
}

}  // namespace ferry::contract
