#pragma once

#include <cstdint>

namespace ferry::models {

// SplitMix64: the same numbers on every machine.
inline std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  auto mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

// Of a run, and of one thing in it.
inline std::uint64_t mix_seed(std::uint64_t seed, std::uint64_t number) {
  return seed * 0x100000001b3 + number;
}

}  // namespace ferry::models
