#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace ferry::fabric::shm {

// Large reads from memory that nobody can map go one of two methods. Through the ring both cores
// copy, which wins where they share a cache; the kernel copies once, on the caller's core
// (process_vm_readv), which wins where they do not, and where the peer is busy with something else.
// Which is faster is measured on the copies themselves. Thread-safe; two that measure at once
// may lose one of the two.
class CopyMethods {
 public:
  enum class Method : std::uint8_t { kRing = 0, kKernel = 1 };
  static constexpr std::uint64_t kLeast = 64 * 1024;  // shorter ones always go through the ring

  // The way that was faster for copies of about this length; now and then the other one.
  Method choose(std::uint64_t length);
  // A read took so long.
  void took(Method way, std::uint64_t length, std::int64_t ns);
  // The kernel does not let us: never again.
  void refuse_kernel() { kernel_refused_.store(true, std::memory_order_relaxed); }

 private:
  struct Class {
    // Picoseconds per byte by way, smoothed; 0: not measured.
    std::array<std::atomic<std::uint64_t>, 2> cost{};
    std::atomic<std::uint32_t> chosen{0};
  };
  Class& class_of(std::uint64_t length) {
    return classes_[length < 512 * 1024 ? 0 : length < 8 * 1024 * 1024 ? 1 : 2];
  }
  std::array<Class, 3> classes_;
  std::atomic<bool> kernel_refused_{false};
};

}  // namespace ferry::fabric::shm
