#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "ferry/base/error.h"

namespace ferry {

// Owns a file descriptor. Move-only.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();
  Result<Fd> duplicate() const;

 private:
  int fd_ = -1;
};

// Owns a memory mapping. Move-only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      bytes_ = std::exchange(other.bytes_, {});
    }
    return *this;
  }
  ~Mapping() { reset(); }

  // Maps `length` bytes of `fd`, shared. `writable` false maps read-only.
  static Result<Mapping> shared(int fd, std::size_t length, bool writable = true);
  // Maps private zero pages.
  static Result<Mapping> anonymous(std::size_t length);

  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  std::span<std::byte> bytes() const { return bytes_; }
  explicit operator bool() const { return !bytes_.empty(); }
  void reset();

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// A new memfd of the given size, sealed against resizing and against further seals.
Result<Fd> sealed_memfd(const char* name, std::size_t length);

}  // namespace ferry
