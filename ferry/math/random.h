#pragma once

#include <cstdint>
#include <string_view>

namespace ferry::math {

// Numbers that depend on a key and a position alone: any of them can be had without those before
// it, and they are the same on every machine. Not for secrets.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t position) {
  std::uint64_t bits = key + (position + 1) * 0x9E3779B97F4A7C15U;  // SplitMix64
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

// From 0, below 1.
constexpr double random_unit(std::uint64_t key, std::uint64_t position) {
  return static_cast<double>(random_bits(key, position) >> 11) * 0x1.0p-53;
}

// A key for a seed and a name.
constexpr std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  return random_bits(seed, hash);
}

}  // namespace ferry::math
