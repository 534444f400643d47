#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::bench {

// Who a pair belongs to: the library, the machine's limits, or somebody else's library.
enum class Owner { kOurs, kLimit, kPeer };

enum class Wait { kSpin, kSleep };

// One way to give a tensor to another process: a round program and how to start it.
struct Variant {
  std::string id;
  std::string title;
  Owner owner = Owner::kOurs;
  // What selects it: a name of --providers for ours, of --against for all others.
  std::string selector;
  // A program's file name; empty is the running program itself.
  std::string program = {};
  std::vector<std::string> args = {};
  // NAME=VALUE, for its environment.
  std::vector<std::string> settings = {};
  // How it waits; asked for in each run.
  Wait wait = Wait::kSpin;
  // It waits in its own way, whatever is asked for.
  bool waits_its_way = false;
  bool in_quick = true;
  // Memory that a run needs, as a multiple of the tensor.
  double memory = 2.2;
  // Sizes outside are left out: they would say nothing.
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();
};

// Every pair there is, in the order of the table. Add new ones here.
const std::vector<Variant>& all_variants();
// Those of `ferry bench tensor`.
const std::vector<Variant>& tensor_variants();
// Those of `ferry bench message`.
const std::vector<Variant>& message_variants();

// Of those: the ones with a fixed value, by what is before it, such as "message-tcp-eager".
std::vector<std::string> fixed_variants(const std::string& of);
// The sizes at which such a value can make a difference.
struct SizeSpan {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};
constexpr SizeSpan kEagerMatters = {1 << 10, 256 << 10};
constexpr SizeSpan kChunksMatter = {1 << 20};

struct Selection {
  std::vector<std::string> providers;
  std::vector<std::string> against;
  bool spin = true;
  bool sleep = false;
  bool quick = false;
};

std::vector<Variant> select_variants(const std::vector<Variant>& all, const Selection& wanted);

// The provider of ours that a variant is or stands beside: "shm", "tcp" or "verbs".
std::string way_of(const Variant& variant);

// How to get a missing program of this selector.
std::string how_to_install(const std::string& selector);
// Where a program of this selector is, first match wins. kNotFound says how to get it.
Result<std::string> find_program(const std::string& program, const std::string& selector,
                                 const std::vector<std::string>& folders);

}  // namespace ferry::bench
