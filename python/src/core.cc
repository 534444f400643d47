#include "core.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

namespace tensorferry {

namespace {

constexpr std::int64_t kSlice = 50'000'000;

std::atomic<bool> ending{false};
std::atomic<int> unlocked{0};  // threads that are not in the interpreter, because of us
std::atomic<pid_t> ended_by{0};

pid_t thread_number() { return static_cast<pid_t>(syscall(SYS_gettid)); }
bool in_main_thread() { return thread_number() == getpid(); }

std::int64_t now_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1'000'000'000LL + ts.tv_nsec;
}

std::int64_t end_of(Timeout timeout) {
  constexpr auto kNever = std::numeric_limits<std::int64_t>::max();
  if (!timeout) return kNever;
  if (std::isnan(*timeout) || *timeout < 0)
    fail(FERRY_INVALID_ARGUMENT, "a timeout is a number of seconds that is not negative, or None");
  if (*timeout > 1e9) return kNever;
  return now_ns() + static_cast<std::int64_t>(*timeout * 1e9);
}

// A call on a thread of its own.
struct Errand {
  std::mutex lock;
  std::condition_variable done;
  bool is_done = false;
  ferry_error* error = nullptr;
};

}  // namespace

void fail(int code, const std::string& message) { throw Failure{code, 0, message}; }

void check(ferry_error* error) {
  if (error == nullptr) return;
  Failure failure{ferry_error_code(error), ferry_error_os_code(error), ferry_error_message(error)};
  ferry_error_free(error);
  throw failure;
}

Unlocked::Unlocked() {
  ++unlocked;
  state_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
  --unlocked;
  if (ending.load() && ended_by.load() != thread_number())
    for (;;) pause();
  PyEval_RestoreThread(state_);
}

void begin_end() {
  ended_by = thread_number();
  ending = true;
  auto* const state = PyEval_SaveThread();
  const auto limit = now_ns() + 4 * kSlice;
  while (unlocked.load() != 0 && now_ns() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

void wait_in_slices(Timeout timeout, const std::function<ferry_error*(std::int64_t)>& step) {
  const auto end = end_of(timeout);
  for (auto left = timeout && *timeout == 0 ? 0 : end - now_ns();;) {
    ferry_error* error = nullptr;
    const auto slice = std::clamp<std::int64_t>(left, 0, kSlice);
    {
      Unlocked out;
      error = step(slice);
    }
    left = end - now_ns();
    if (error == nullptr) return;
    if (ferry_error_code(error) != FERRY_DEADLINE_EXCEEDED || left <= 0) check(error);
    ferry_error_free(error);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void wait_whole(Timeout timeout, std::function<ferry_error*(std::int64_t)> call,
                std::vector<nb::object> kept) {
  const auto end = end_of(timeout);
  const auto span = timeout ? std::max<std::int64_t>(end - now_ns(), 0) : -1;
  if (!in_main_thread()) {
    ferry_error* error = nullptr;
    {
      Unlocked out;
      error = call(span);
    }
    return check(error);
  }
  auto errand = std::make_shared<Errand>();
  std::thread([errand, span, call = std::move(call)] {
    auto* const error = call(span);
    const std::lock_guard guard(errand->lock);
    errand->error = error;
    errand->is_done = true;
    errand->done.notify_one();
  }).detach();
  for (bool done = false;;) {
    {
      Unlocked out;
      std::unique_lock guard(errand->lock);
      done = errand->done.wait_for(guard, std::chrono::nanoseconds(kSlice),
                                   [&] { return errand->is_done; });
    }
    if (done) return check(errand->error);
    if (PyErr_CheckSignals() == 0) continue;
    for (auto& object : kept) (void)object.release();
    throw nb::python_error();
  }
}

std::string text_of(ferry_text* text) {
  std::string own(ferry_text_data(text), ferry_text_size(text));
  ferry_text_free(text);
  return own;
}

nb::object json_of(ferry_text* text) {
  return nb::module_::import_("json").attr("loads")(text_of(text));
}

}  // namespace tensorferry
