#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ferry/base/error.h"

namespace ferry::memory {

// Remembers registrations of the user's own memory, so that sending the same buffer again costs no
// registration; right also when memory is unmapped and mapped again behind everybody's back.
//
// The kernel tells of every munmap, mremap and MADV_DONTNEED (userfaultfd events) and stops the
// caller until we have taken note. Where userfaultfd is refused nothing is cached: every acquire
// registers and every release drops. See docs/design/memory.md.
//
// Thread-safe. A child after fork() must not use it. A range must not be unmapped or discarded
// while the same range is being acquired. mprotect, and holes punched into a shared file through
// another mapping or descriptor, are not seen.
class RegistrationCache {
 public:
  struct Options {
    std::size_t max_count = 1024;
    std::size_t max_bytes = std::size_t{4} << 30;  // of idle and leased entries together
    bool caching = true;
  };
  struct Stats {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;          // each has made a registration
    std::uint64_t registering_ns = 0;  // spent in making them
    std::uint64_t invalidated = 0;     // entries whose memory went away
    std::uint64_t evicted = 0;         // entries pushed out by the bounds
    std::size_t leases = 0;            // now
    std::size_t entries = 0;           // now
    std::size_t bytes = 0;             // now
  };
  // Both may be called from any thread, also from one of the cache's own, several at a time, and
  // must not call the cache. `rights` is whatever the caller means by its bits.
  using Make = std::function<Result<void*>(std::span<std::byte> range, std::uint32_t rights)>;
  using Drop = std::function<void(void* handle)>;

  // A registration in use; not dropped until the lease ends. Move-only.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { swap(other); }
    Lease& operator=(Lease&& other) noexcept {
      Lease(std::move(other)).swap(*this);
      return *this;
    }
    ~Lease() { end(); }

    void* handle() const { return handle_; }
    explicit operator bool() const { return cache_ != nullptr; }
    void end();

   private:
    friend class RegistrationCache;
    Lease(RegistrationCache* cache, void* handle, std::int32_t slot)
        : cache_(cache), handle_(handle), slot_(slot) {}
    void swap(Lease& other) {
      std::swap(cache_, other.cache_);
      std::swap(handle_, other.handle_);
      std::swap(slot_, other.slot_);
    }
    RegistrationCache* cache_ = nullptr;
    void* handle_ = nullptr;
    std::int32_t slot_ = -1;  // -1: not cached, dropped when the lease ends
  };

  RegistrationCache(const Options& options, Make make, Drop drop);
  // Every lease has ended.
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // A registration that covers `range` with at least `rights`. Fails only as `make` does, or with
  // kInvalidArgument for an empty range.
  Result<Lease> acquire(std::span<std::byte> range, std::uint32_t rights);

  bool caching() const;
  // Why nothing is cached, and what to do; empty while caching.
  const std::string& why_not() const;
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferry::memory
