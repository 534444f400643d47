#pragma once

#include <atomic>
#include <cstdint>

#include "ferry/base/clock.h"
#include "ferry/memory/registrar.h"

namespace ferry::fabric {

// A provider as a registrar that counts how many blocks were attached, and the time it took.
// Thread-safe. Must not outlive the provider.
class MeteredRegistrar final : public memory::Registrar {
 public:
  explicit MeteredRegistrar(memory::Registrar& provider) : provider_(provider) {}

  Status attach(const memory::Block& block) override {
    const std::int64_t begun = now_ns();
    Status status = provider_.attach(block);
    ns_.fetch_add(static_cast<std::uint64_t>(now_ns() - begun), std::memory_order_relaxed);
    if (status) count_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  void detach(const memory::Block& block) override { provider_.detach(block); }

  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  std::uint64_t ns() const { return ns_.load(std::memory_order_relaxed); }

 private:
  memory::Registrar& provider_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> ns_{0};
};

}  // namespace ferry::fabric
