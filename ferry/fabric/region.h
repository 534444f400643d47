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
// thread-safe itself, its bytes are the user's. Must not outlive its device.
//
// Closing or destroying it revokes its grants. The memory is given up only when no peer can touch
// it any more; until then it is retired (DeviceStats::retired_bytes):
//
// - Memory from allocate() goes back to the pool later, when the last peer has let go of it or its
//   process has ended. The destructor does not wait for that.
// - Memory from register_memory() is the program's again when the destructor returns. So the
//   destructor waits, however long it takes. On shared memory and tcp only threads of this process
//   store to such memory: it waits for their copy of the moment, never for a peer. On verbs it
//   waits until peers have let go, or, where one does not answer, until its lane is taken down:
//   half a second, times Options::patience if that is above 1, and a moment for the driver. Not to
//   be destroyed in a completion callback: that may run on the thread to wait for.
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
  // Like destruction, with a deadline also for memory from allocate(). kDeadlineExceeded: a peer
  // may still touch the memory, which stays retired, and this region with it; close it again later,
  // or leave the rest to the destructor. OK: the region is empty.
  Status close(Deadline deadline);
  void reset();

 private:
  friend class DeviceCore;
  explicit Region(std::shared_ptr<RegionRecord> record) : record_(std::move(record)) {}
  std::shared_ptr<RegionRecord> record_;  // shared with the device until the last peer let go
};

}  // namespace ferry::fabric
