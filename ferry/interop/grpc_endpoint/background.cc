#include <thread>
#include <utility>

#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/background_internal.h"

namespace ferry::interop {

namespace {

constexpr auto kWakeEvery = std::chrono::milliseconds(20);
constexpr auto kIdle = std::chrono::hours(1);  // nothing to do: until it is told

}  // namespace

void run_aside(std::function<void()> task) { std::thread(std::move(task)).detach(); }

void Background::run_later(std::function<void()> task) {
  LockGuard<Mutex> guard(lock_);
  tasks_.push_back(std::move(task));
  begin();
}

void Background::wake_for(Nanos span) {
  LockGuard<Mutex> guard(lock_);
  wakes_until_ = Deadline::after(span + 2 * kWakeEvery).ns();
  begin();
}

void Background::begin() {
  if (!std::exchange(begun_, true)) run_aside([this] { run(); });
  changed_.notify_all();
}

void Background::run() {
  for (;;) {
    std::vector<std::function<void()>> tasks;
    bool wakes = false;
    {
      LockGuard<Mutex> guard(lock_);
      wakes = now_ns() < wakes_until_;
      if (tasks_.empty()) changed_.wait_for(lock_, wakes ? Nanos(kWakeEvery) : Nanos(kIdle));
      tasks.swap(tasks_);
    }
    if (wakes) waker_.wake_always();
    for (auto& task : tasks) task();
  }
}

}  // namespace ferry::interop
