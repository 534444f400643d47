#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/ferry.h"
#include "tests/must.h"

namespace ferry::process {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 10ms reads well

inline constexpr const char* kSecret = "the secret of the process tests";

inline Deadline soon() { return Deadline::after(20s); }

using ferry::trial::code_of;
using ferry::trial::must;

fabric::Options options_for(const std::string& provider);
Device open_device(const std::string& provider);

// Runs `body` in a child process, which must have been forked while this one had no device open,
// and returns what it says: empty is well. A child that does not end in time is killed.
std::string in_child(const std::function<std::string()>& body, Nanos limit = 60s);

// A child that goes on until it is told to end.
class Child {
 public:
  explicit Child(const std::function<void()>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// A device under attack and a well-behaved peer of it that keeps working, with every byte checked.
class Bystander {
 public:
  Bystander(Device& device, const std::string& provider);
  ~Bystander();
  // What went wrong for it; empty if nothing did. Waits for a few more rounds first.
  std::string complaint();

 private:
  void run();

  Device own_;
  Region region_;
  RemoteRegion remote_;
  Channel channel_;
  Channel other_end_;
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  std::string problem_;  // read after ended_
  std::thread thread_;
};

// Bytes to the device's port, by a program that is not ours.
Fd dial(const Device& device);
// True once the other side has closed the connection; false if it has not by the deadline.
bool closed_by_peer(int fd, Deadline deadline);

}  // namespace ferry::process
