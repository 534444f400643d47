#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/shm/job_internal.h"

namespace ferry::fabric::shm {

// Extra threads that help with large copies, for machines with cores to spare. One copy at a time;
// whoever finds them busy copies without. Thread-safe.
class Team {
 public:
  explicit Team(std::size_t threads);
  ~Team();

  // While it lives, the threads copy pieces of the share too.
  class Help {
   public:
    Help(Team* team, std::atomic<std::uint64_t>& ticket, std::uint32_t generation,
         const Share& share);
    ~Help() { end(); }
    Help(const Help&) = delete;
    Help& operator=(const Help&) = delete;
    // No thread of the team touches the share any more; how many pieces they copied.
    std::uint32_t end();

   private:
    friend class Team;
    Team* team_;  // null: not ours, or ended
    std::atomic<std::uint64_t>& ticket_;
    const std::uint32_t generation_;
    const Share& share_;
    std::uint32_t copied_ = 0;  // guarded by the team's lock, as is users_
    int users_ = 0;
  };

 private:
  void work();

  Mutex lock_;
  std::condition_variable_any wake_;
  std::condition_variable_any left_;
  Help* current_ FERRY_GUARDED_BY(lock_) = nullptr;
  std::uint64_t round_ FERRY_GUARDED_BY(lock_) = 0;
  bool stop_ FERRY_GUARDED_BY(lock_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace ferry::fabric::shm
