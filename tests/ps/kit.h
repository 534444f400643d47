#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ferry/ps/scheduler.h"
#include "ferry/ps/server.h"
#include "ferry/ps/worker.h"
#include "tests/must.h"

namespace ferry::ps::testing {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 10ms reads well
using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;

// Sanitizers make everything slower, and what is slow is not to be taken for dead.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlower = 3;
#else
inline constexpr int kSlower = 1;
#endif
inline Deadline soon() { return Deadline::after(30s * kSlower); }

using ferry::trial::code_of;
using ferry::trial::must;

inline Spec f32(std::initializer_list<std::int64_t> dims) {
  return {ElementType::kF32, must(Shape::of(dims))};
}
template <class T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
inline std::vector<float> floats(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const float*>(bytes.data());
  return {data, data + bytes.size() / sizeof(float)};
}
inline std::vector<float> floats(const Pulled& pulled, std::size_t count) {
  std::vector<float> all(count);
  pulled.copy_to(std::as_writable_bytes(std::span(all)));
  return all;
}
// The same values on every machine, different for each seed.
std::vector<float> noise(std::size_t count, std::uint64_t seed);

// False: it is not so after a long time.
[[nodiscard]] bool until(const std::function<bool()>& so);

// So many steps of one push each, every one of them applied before the next; the first failure.
Status push_steps(Worker& worker, Parameter parameter, const std::vector<float>& gradient,
                  int steps = 1);

fabric::Options device_options(const std::string& provider);

// Scheduler and servers as threads of this process.
class Job {
 public:
  // `give_up`: how long the scheduler and the servers wait for who is silent.
  Job(std::string provider, JobOptions options, std::uint32_t shards = 1,
      const std::function<void(ServerOptions&)>& with = {}, Nanos give_up = 60s);
  ~Job();

  Worker worker(std::optional<std::uint32_t> rank = {},
                NotFinite not_finite = NotFinite::kIgnore) const;
  // Runs one thread for each worker of the job; what they throw fails the test.
  void run(const std::function<void(Worker&)>& body) const;
  WorkerOptions worker_options() const;
  Scheduler& scheduler() { return *scheduler_; }
  Server& server(std::size_t index = 0) { return *servers_[index]; }
  // Its threads end and its connections close; nobody is told.
  void kill(std::size_t index) { servers_[index].reset(); }

 private:
  std::string provider_;
  JobOptions options_;
  std::optional<Scheduler> scheduler_;
  std::vector<std::optional<Server>> servers_;
};

// A process of this program with another role: see main.cc. Killed when it goes.
class Process {
 public:
  static Process start(const std::vector<std::string>& arguments);
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Process& operator=(Process&&) = delete;
  ~Process();

  int pid() const { return pid_; }
  void signal(int number) const;
  // Until it has stopped itself.
  void wait_for_stop() const;
  // Its exit status, or 128 and the signal; -1 if it does not end in time.
  int wait(Deadline deadline = soon());

 private:
  Process() = default;
  int pid_ = -1;
};

// A folder of its own, which goes with it.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What a process of role `name` does with the rest of the arguments.
using Role = int (*)(const std::vector<std::string>& arguments);
int play(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace ferry::ps::testing
