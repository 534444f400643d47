#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

// What operations cost in their steady state: allocations, locks that blocked and system calls, of
// all threads of a process.

namespace ferry::steady {

inline constexpr int kRounds = 1000;

// The problem where processes cannot be traced.
inline constexpr const char* kUntraced = "no process can be traced here";

struct Cost {
  std::uint64_t allocations = 0;
  std::uint64_t blocked = 0;  // locks that somebody else held
  std::uint64_t sleeps = 0;   // system calls that sleep, wake or yield
  std::uint64_t sockets = 0;  // system calls on sockets, and those that look which are ready
  std::map<std::string, std::uint64_t> others;  // all other system calls, by name or number
  double seconds = 0;                           // that the rounds took
  std::string problem;                          // why nothing was measured
  std::uint64_t all_others() const;
  std::string to_string() const;
};

// Given to a scenario, which calls it once with one round of the operation.
using Repeat = std::function<void(const std::function<void()>& round)>;

// Runs the scenario in a process of its own, traced from outside. Its round is run until the steady
// state is reached, and then kRounds times while everything is counted. The caller has no threads.
Cost cost_of(const std::function<void(const Repeat&)>& scenario);

}  // namespace ferry::steady
