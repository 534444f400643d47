#include <sys/epoll.h>

#include <cerrno>

#include "ferry/fabric/watch_table_internal.h"

namespace ferry::fabric {

Status WatchTable::add(int fd, std::uint32_t epoll_events, LoopSource* source, std::uint64_t cookie,
                       const std::string& loop) {
  LockGuard<Mutex> guard(lock_);
  auto index = static_cast<std::size_t>(fd);
  if (watches_.size() <= index) watches_.resize(index + 1);
  bool known = watches_[index] != nullptr;
  // Events of before a change are as good as those after it.
  const auto number = known ? watches_[index]->number : ++last_number_;
  watches_[index] = std::make_unique<Watch>(Watch{source, cookie, number});
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = std::uint64_t{number} << 32 | index;
  int how = known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(epoll_.get(), how, fd, &event) == 0) return {};
  // A descriptor that was closed and opened again under the same number is new to epoll.
  if (known && errno == ENOENT) {
    watches_[index]->number = ++last_number_;
    event.data.u64 = std::uint64_t{last_number_} << 32 | index;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  }
  int error = errno;
  watches_[index].reset();
  return fail_errno(error, "watching descriptor {} in {}", fd, loop);
}

void WatchTable::remove(int fd) {
  LockGuard<Mutex> guard(lock_);
  auto index = static_cast<std::size_t>(fd);
  if (index >= watches_.size() || watches_[index] == nullptr) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_[index].reset();
}

void WatchTable::remove_all_of(const LoopSource* source) {
  LockGuard<Mutex> guard(lock_);
  for (auto& watch : watches_)
    if (watch != nullptr && watch->source == source) watch.reset();
}

void WatchTable::dispatch(std::uint64_t which, std::uint32_t epoll_events) {
  const auto index = which & 0xffff'ffffU;
  Watch found{nullptr, 0, 0};
  {
    LockGuard<Mutex> guard(lock_);
    if (index < watches_.size() && watches_[index] != nullptr &&
        watches_[index]->number == which >> 32)
      found = *watches_[index];
  }
  if (found.source != nullptr) found.source->ready_on_loop(found.cookie, epoll_events);
}

}  // namespace ferry::fabric
