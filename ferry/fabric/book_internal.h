#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/fabric/types.h"

namespace ferry::fabric {

// The address book: grants by name, and who waits for a name. Thread-safe.
class Book {
 public:
  // Called once with the grant when the name appears, or with the failure; outside the lock.
  using Answer = std::function<void(Result<RemoteRegion>)>;

  // At most `names` in the book, and `look_ups` of one owner that wait: none takes the place of
  // another's.
  Book(std::size_t names, std::size_t look_ups) : max_names_(names), max_look_ups_(look_ups) {}

  Status publish(std::string_view name, const RemoteRegion& grant);
  Status withdraw(std::string_view name);
  // Answers at once if the name is there, else when it appears or `deadline` passes (see expire).
  // `owner` groups the waiters of one session.
  void look_up(std::string_view name, std::uint32_t owner, Deadline deadline, Answer answer);
  void forget(std::uint32_t owner);
  void expire(std::int64_t now);
  std::size_t waiting() const;

 private:
  struct Waiter {
    std::uint32_t owner;
    Deadline deadline;
    Answer answer;
  };
  // A look-up of this owner waits no more: one more of its may.
  void release_place(std::uint32_t owner) FERRY_REQUIRES(lock_);

  const std::size_t max_names_;
  const std::size_t max_look_ups_;
  mutable Mutex lock_;
  std::map<std::string, RemoteRegion, std::less<>> names_ FERRY_GUARDED_BY(lock_);
  std::multimap<std::string, Waiter, std::less<>> waiters_ FERRY_GUARDED_BY(lock_);
  std::unordered_map<std::uint32_t, std::size_t> waiting_of_ FERRY_GUARDED_BY(lock_);  // by owner
};

}  // namespace ferry::fabric
