#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/base/fd.h"

namespace ferry::memory {

// Hears of watched memory that goes away (munmap, mremap, MADV_DONTNEED), however the program does
// it, through userfaultfd. No page fault is ever taken from the program: ranges are registered for
// write protection and nothing is protected.
//
// Whoever unmaps watched memory stands still until read_event() has taken the event, so the thread
// that reads must never unmap memory, nor wait for anybody who might.
class Userfault {
 public:
  struct Gone {
    std::uintptr_t start;
    std::uintptr_t end;
  };

  // The error says why not, and what to do.
  static Result<Userfault> open();

  // Also watches the rest of the first and the last page. False: this memory cannot be watched (a
  // mapping of an ordinary file, or somebody else watches it).
  bool watch(std::span<std::byte> range) const;
  // True when the events of all changes made to watched mappings before this call have been read.
  // One system call, which takes no lock.
  bool settled() const;
  // Never blocks; false when there is no event.
  bool read_event(Gone* gone) const;
  int fd() const { return fd_.get(); }

 private:
  explicit Userfault(Fd fd) : fd_(std::move(fd)) {}
  Status try_it_out();
  Fd fd_;
};

}  // namespace ferry::memory
