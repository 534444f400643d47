#include <utility>

#include "ferry/fabric/book_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::size_t kMaxName = 256;
}

Status Book::publish(std::string_view name, const RemoteRegion& grant) {
  if (name.empty() || name.size() > kMaxName)
    return fail(Code::kInvalidArgument, "a region's name has 1 to {} bytes, not {}", kMaxName,
                name.size());
  std::vector<Waiter> ready;
  {
    LockGuard<Mutex> guard(lock_);
    if (names_.size() >= max_names_)
      return fail(Code::kResourceExhausted,
                  "the address book is full ({} names); withdraw some or raise max_names",
                  max_names_);
    if (!names_.emplace(name, grant).second)
      return fail(Code::kAlreadyExists, "the name '{}' is taken; withdraw it first", name);
    auto [first, last] = waiters_.equal_range(name);
    for (auto it = first; it != last; ++it) {
      release_place(it->second.owner);
      ready.push_back(std::move(it->second));
    }
    waiters_.erase(first, last);
  }
  for (auto& waiter : ready) waiter.answer(grant);
  return {};
}

Status Book::withdraw(std::string_view name) {
  LockGuard<Mutex> guard(lock_);
  auto found = names_.find(name);
  if (found == names_.end()) return fail(Code::kNotFound, "no region is published as '{}'", name);
  names_.erase(found);
  return {};
}

void Book::look_up(std::string_view name, std::uint32_t owner, Deadline deadline, Answer answer) {
  std::optional<Result<RemoteRegion>> now;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = names_.find(name);
    if (found != names_.end()) {
      now = found->second;
    } else if (auto& waiting = waiting_of_[owner]; waiting >= max_look_ups_) {
      now = fail(Code::kResourceExhausted,
                 "{} look-ups of one peer wait for names already, its max_look_ups", waiting);
    } else {
      ++waiting;
      waiters_.emplace(name, Waiter{owner, deadline, answer});
    }
  }
  if (now) answer(*std::move(now));
}

void Book::forget(std::uint32_t owner) {
  LockGuard<Mutex> guard(lock_);
  if (waiting_of_.erase(owner) == 0) return;
  std::erase_if(waiters_, [&](const auto& entry) { return entry.second.owner == owner; });
}

void Book::expire(std::int64_t now) {
  std::vector<std::pair<std::string, Waiter>> late;
  {
    LockGuard<Mutex> guard(lock_);
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      if (it->second.deadline.ns() > now) {
        ++it;
        continue;
      }
      release_place(it->second.owner);
      late.emplace_back(it->first, std::move(it->second));
      it = waiters_.erase(it);
    }
  }
  for (auto& [name, waiter] : late)
    waiter.answer(fail(Code::kDeadlineExceeded, "nobody published a region as '{}' in time", name));
}

void Book::release_place(std::uint32_t owner) {
  auto found = waiting_of_.find(owner);
  if (--found->second == 0) waiting_of_.erase(found);
}

std::size_t Book::waiting() const {
  LockGuard<Mutex> guard(lock_);
  return waiters_.size();
}

}  // namespace ferry::fabric
