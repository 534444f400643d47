// Data path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ferry/base/waiting.h"

namespace ferry::fabric {

// Something that a loop makes progress on: the sockets of the tcp provider on that loop, a
// completion queue, the rings of the shm provider. Methods are called by the holder of the loop's
// token, but for has_pending().
class LoopSource {
 public:
  virtual ~LoopSource() = default;
  // Does what can be done now without blocking; returns how much was done (0: nothing).
  virtual int progress_on_loop() = 0;
  // The loop is about to sleep: ask for a wake-up through a watched fd (ibv_req_notify_cq and the
  // like). The loop calls progress_on_loop() once more afterwards, then sleeps. If it is the
  // poller that sleeps, the end of an operation that nobody is told of needs no wake-up: whoever
  // asks for it makes progress.
  virtual void arm_on_loop(bool poller) { (void)poller; }
  // A watched fd is ready. Level-triggered; `cookie` is what watch() got.
  virtual void ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) {
    (void)cookie, (void)epoll_events;
  }
  // About every 10 ms while has_pending() is true: look for expired and cancelled operations.
  virtual void tick_on_loop(std::int64_t now) { (void)now; }
  // Whether ticks are wanted. Any thread.
  virtual bool has_pending() const { return false; }
};

// The sources of one loop. For the holder of its token only.
class LoopSources {
 public:
  void add(LoopSource* source) { sources_.push_back(source); }
  void remove(LoopSource* source) { std::erase(sources_, source); }
  bool empty() const { return sources_.empty(); }

  // By index, here and below: a source may add sources.
  int progress() {
    int work = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) work += sources_[i]->progress_on_loop();
    return work;
  }
  void arm(bool poller) {
    for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i]->arm_on_loop(poller);
  }
  void tick(std::int64_t now) {
    if (now - last_tick_ < waiting::kTick.count()) return;
    last_tick_ = now;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i]->has_pending()) sources_[i]->tick_on_loop(now);
  }
  bool any_pending() const {
    return std::any_of(sources_.begin(), sources_.end(),
                       [](const LoopSource* source) { return source->has_pending(); });
  }

 private:
  std::vector<LoopSource*> sources_;
  std::int64_t last_tick_ = 0;
};

}  // namespace ferry::fabric
