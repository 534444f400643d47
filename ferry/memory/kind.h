#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ferry/base/error.h"

namespace ferry::memory {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // arenas are multiples of it

enum class KindId : std::uint8_t { kHost, kCuda };

std::string_view name_of(KindId kind);

// Owns what lies under one arena; the destructor gives it back.
class Backing {
 public:
  virtual ~Backing() = default;
  virtual std::span<std::byte> bytes() const = 0;
  // The memfd that holds the bytes from offset 0 on, or -1: not shareable by descriptor.
  virtual int fd() const = 0;
};

// One kind of memory. Callers hand bytes of this kind to fill and copy instead of touching them,
// since not every kind can be touched by the CPU. Thread-safe.
class Kind {
 public:
  virtual ~Kind() = default;
  virtual KindId id() const = 0;
  // Memory for an arena, faulted in, zeroed, aligned to a page at least, on `numa_node` (-1: any).
  // `bytes` is a multiple of 2 MiB.
  virtual Result<std::unique_ptr<Backing>> allocate(std::size_t bytes, int numa_node) = 0;
  virtual Status fill(std::span<std::byte> to, std::byte value) = 0;
  // Copies within this kind; the spans are equally long and do not overlap.
  virtual Status copy(std::span<std::byte> to, std::span<const std::byte> from) = 0;
};

// Ordinary memory, in a sealed memfd: huge pages where free ones exist.
Kind& host_kind();

}  // namespace ferry::memory
