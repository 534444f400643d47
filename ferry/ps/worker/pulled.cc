#include "ferry/ps/pulled.h"

#include <cstring>
#include <utility>

#include "ferry/ps/worker/puller_internal.h"

// Whose the memory of weights is.

namespace ferry::ps {

Pulled& Pulled::operator=(Pulled&& other) noexcept {
  if (this == &other) return *this;
  (void)release();
  puller_ = std::exchange(other.puller_, nullptr);
  parameter_ = other.parameter_;
  in_place_ = other.in_place_;
  leases_ = std::move(other.leases_);
  views_ = std::move(other.views_);
  own_ = std::move(other.own_);
  return *this;
}

void Pulled::copy_to(std::span<std::byte> out) const {
  for (const auto& view : views_) {
    FERRY_ASSERT(view.offset + view.bytes.size() <= out.size(), "there is room for the tensor");
    std::memcpy(out.data() + view.offset, view.bytes.data(), view.bytes.size());
  }
}

Status Pulled::release() {
  auto* puller = std::exchange(puller_, nullptr);
  if (puller == nullptr) return {};
  views_.clear();
  own_.reset();
  return puller->release(parameter_, leases_);
}

}  // namespace ferry::ps
