#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ferry/fabric/options.h"

namespace ferry::ps {

// What becomes of a gradient with a value that is not finite.
enum class NotFinite : std::uint8_t {
  kIgnore,  // nobody looks
  kCount,   // WorkerStats::not_finite counts such gradients
  kReject,  // push() fails, and sends nothing
};

struct WorkerOptions {
  std::string scheduler;                // its endpoint
  fabric::Options device{};             // of the data
  std::optional<std::uint32_t> rank{};  // none: the next that is free
  NotFinite not_finite = NotFinite::kIgnore;
  // Workers of one host merge their gradients (JobOptions::merge). Empty: this machine.
  std::string host{};
};

}  // namespace ferry::ps
