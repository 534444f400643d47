#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/ps/parameter.h"

namespace ferry::ps {

class Puller;

// A piece of a tensor, contiguous.
struct View {
  std::uint64_t offset = 0;  // in bytes of the tensor
  std::span<const std::byte> bytes;
  std::uint64_t version = 0;  // of its first block
};

// Weights: in the server's memory under a lease where the path allows it, else in memory of this
// worker. Let go of it before the next push of the step: servers keep the version meanwhile.
// Move-only; must not outlive its worker, and one thread uses both.
class Pulled {
 public:
  Pulled() = default;
  Pulled(Pulled&& other) noexcept { *this = std::move(other); }
  Pulled& operator=(Pulled&& other) noexcept;
  ~Pulled() { (void)release(); }

  // The whole tensor, in order, in as few pieces as there are.
  std::span<const View> views() const { return views_; }
  // The whole tensor, if it is in one piece; else empty.
  std::span<const std::byte> bytes() const {
    return views_.size() == 1 ? views_.front().bytes : std::span<const std::byte>();
  }
  void copy_to(std::span<std::byte> out) const;
  bool in_place() const { return in_place_; }
  // kUnavailable: a server has ended the lease, and what was read cannot be trusted; it believed
  // this worker to be dead, or it was closed itself.
  Status release();

 private:
  friend class Puller;
  // Of one part, in the seat where it was taken: the part may have another server by now.
  struct Lease {
    std::uint32_t part = 0;
    std::byte* seat = nullptr;
    std::uint64_t begin = 0;
  };
  Puller* puller_ = nullptr;
  Parameter parameter_ = 0;
  bool in_place_ = false;
  std::vector<Lease> leases_;
  std::vector<View> views_;
  std::shared_ptr<std::vector<std::byte>> own_;
};

}  // namespace ferry::ps
