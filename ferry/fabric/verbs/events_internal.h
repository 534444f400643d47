#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "ferry/fabric/verbs/shared_internal.h"

namespace ferry::fabric::verbs {

// The device's own announcements: a port went down, a queue pair broke, the device died. Runs on
// the first loop.
class Events final : public Loop::Source {
 public:
  // Takes lanes down: the one with this queue pair number, or all when none is given.
  using Fail = std::function<void(std::optional<std::uint32_t> qpn, const Error& cause)>;

  static Result<std::unique_ptr<Events>> open(Shared& shared, Loop& loop, Fail fail);
  ~Events() override;

  int progress_on_loop() override { return 0; }
  void ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) override;
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override { return down_since_.load(std::memory_order_relaxed) != 0; }
  // Whether lanes can work; else why not. Any thread.
  Status health() const;

 private:
  Events(Shared& shared, Loop& loop, Fail fail)
      : shared_(shared), loop_(loop), failure_(std::move(fail)) {}
  void handle(const ibv_async_event& event);
  Error port_error() const;

  Shared& shared_;
  Loop& loop_;
  Fail failure_;
  std::atomic<std::int64_t> down_since_{0};  // the port; 0: it is up
  std::atomic<bool> dead_{false};            // the device
};

}  // namespace ferry::fabric::verbs
