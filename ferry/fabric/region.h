#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "ferry/fabric/types.h"
#include "ferry/memory/kind.h"

namespace ferry::fabric {

class DeviceCore;
struct RegionRecord;

// A registered piece of memory of this process: bytes that peers can be let at. Move-only; not
// thread-safe itself, its bytes are the user's. Destroying it revokes its grants; memory from
// allocate() goes back to the pool once no peer can still be touching it. Must not outlive its
// device.
class Region {
 public:
  Region() = default;
  Region(Region&& other) noexcept : record_(std::move(other.record_)) {}
  Region& operator=(Region&& other) noexcept {
    if (this != &other) {
      reset();
      record_ = std::move(other.record_);
    }
    return *this;
  }
  ~Region() { reset(); }

  std::span<std::byte> bytes() const;
  std::byte* data() const { return bytes().data(); }
  std::size_t size() const { return bytes().size(); }
  // The most that any grant of this region may allow.
  Rights rights() const;
  memory::KindId kind() const;
  explicit operator bool() const { return record_ != nullptr; }
  void reset();

 private:
  friend class DeviceCore;
  explicit Region(std::shared_ptr<RegionRecord> record) : record_(std::move(record)) {}
  std::shared_ptr<RegionRecord> record_;  // shared with the device until the last peer let go
};

}  // namespace ferry::fabric
