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
    if (names_.size() >= limit_)
      return fail(Code::kResourceExhausted,
                  "the address book is full ({} names); withdraw some or raise max_names", limit_);
    if (!names_.emplace(name, grant).second)
      return fail(Code::kAlreadyExists, "the name '{}' is taken; withdraw it first", name);
    auto [first, last] = waiters_.equal_range(name);
    for (auto it = first; it != last; ++it) ready.push_back(std::move(it->second));
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
    } else if (waiters_.size() >= limit_) {
      now = fail(Code::kResourceExhausted, "too many peers wait for names ({})", limit_);
    } else {
      waiters_.emplace(name, Waiter{owner, deadline, answer});
    }
  }
  if (now) answer(*std::move(now));
}

void Book::forget(std::uint32_t owner) {
  LockGuard<Mutex> guard(lock_);
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
      late.emplace_back(it->first, std::move(it->second));
      it = waiters_.erase(it);
    }
  }
  for (auto& [name, waiter] : late)
    waiter.answer(fail(Code::kDeadlineExceeded, "nobody published a region as '{}' in time", name));
}

std::size_t Book::waiting() const {
  LockGuard<Mutex> guard(lock_);
  return waiters_.size();
}

}  // namespace ferry::fabric
