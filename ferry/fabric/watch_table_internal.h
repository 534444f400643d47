#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/loop_sources_internal.h"

namespace ferry::fabric {

// Which descriptors an epoll instance watches, and for which source. An event names the watch that
// it is of, so that one of a descriptor which was closed meanwhile is not taken for one of a new
// descriptor with its number. Thread-safe.
class WatchTable {
 public:
  // What an event of the eventfd of a loop names: no watch has it.
  static constexpr std::uint64_t kNoWatch = ~std::uint64_t{0};

  explicit WatchTable(const Fd& epoll) : epoll_(epoll) {}

  // `loop` is for the text of an error.
  Status add(int fd, std::uint32_t epoll_events, LoopSource* source, std::uint64_t cookie,
             const std::string& loop);
  void remove(int fd);
  void remove_all_of(const LoopSource* source);
  // Calls the source, unless the watch that the event names is gone. With the loop's token, so that
  // the source lives.
  void dispatch(std::uint64_t which, std::uint32_t epoll_events);

 private:
  struct Watch {
    LoopSource* source;
    std::uint64_t cookie;
    std::uint32_t number;  // of this watch: a later one of the same descriptor has another
  };

  const Fd& epoll_;
  Mutex lock_;
  std::vector<std::unique_ptr<Watch>> watches_ FERRY_GUARDED_BY(lock_);  // by fd
  std::uint32_t last_number_ FERRY_GUARDED_BY(lock_) = 0;
};

}  // namespace ferry::fabric
