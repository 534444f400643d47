#include <algorithm>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/doorbell_internal.h"
#include "ferry/interop/grpc_endpoint/hand_over_internal.h"

namespace ferry::interop {

namespace {

// An epoll of its own around the device's descriptor: gRPC closes what it watches, and an epoll
// that has seen a duplicate knows it for as long as the original is open.
Result<Fd> wrap_descriptor(int descriptor) {
  Fd wrapper(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!wrapper || ::epoll_ctl(wrapper.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    return fail_errno(errno, "making a descriptor that wakes gRPC's threads");
  return wrapper;
}

}  // namespace

Status Doorbell::attach() {
  LockGuard<Mutex> guard(lock_);
  if (attached_ != 0) {
    ++attached_;
    return {};
  }
  const int descriptor = FERRY_TRY(wrap_descriptor(*device_.device().wait_descriptor())).release();
  ++attached_;
  bell_ = new Bell;
  bell_->owner = this;
  adding_.store(descriptor);
  bell_->fd = grpc_fd_create(descriptor, "tensorferry", false);
  adding_.store(-1);
  bell_->rung.cb = &Doorbell::rung;
  bell_->rung.cb_arg = bell_;
  to_grpc(bell_);
  attached_now_.store(true, std::memory_order_seq_cst);
  grpc_fd_notify_on_read(bell_->fd, &bell_->rung);
  grpc_fd_set_readable(bell_->fd);  // the closure looks for work, and arms if nobody else does
  return {};
}

// Tasks that were posted and have not run yet may want the caller's locks: they run when gRPC has
// told that the descriptor is shut down.
void Doorbell::detach() {
  LockGuard<Mutex> guard(lock_);
  if (--attached_ != 0) return;
  attached_now_.store(false, std::memory_order_relaxed);
  grpc_fd_shutdown(std::exchange(bell_, nullptr)->fd,
                   absl::CancelledError("no connection is left"));
}

void Doorbell::watch(grpc_pollset* pollset) {
  LockGuard<Mutex> guard(lock_);
  grpc_pollset_add_fd(pollset, bell_->fd);
}

void Doorbell::watch(grpc_pollset_set* set, bool on) {
  LockGuard<Mutex> guard(lock_);
  if (on) {
    grpc_pollset_set_add_fd(set, bell_->fd);
  } else {
    grpc_pollset_set_del_fd(set, bell_->fd);
  }
}

void Doorbell::post(std::function<void()> task) {
  bool attached = false;
  {
    LockGuard<Mutex> guard(lock_);
    attached = attached_ != 0;
    if (attached) {
      tasks_.push_back(std::move(task));
      has_tasks_.store(true, std::memory_order_release);
    }
  }
  if (attached) {
    waker_.wake_always();
  } else {
    task();
  }
}

void Doorbell::run_tasks() {
  if (!has_tasks()) return;
  std::vector<std::function<void()>> tasks;
  {
    LockGuard<Mutex> guard(lock_);
    tasks.swap(tasks_);
    has_tasks_.store(false, std::memory_order_relaxed);
  }
  for (auto& task : tasks) task();
}

void Doorbell::rung(void* raw, absl::Status status) {
  from_grpc(raw);
  auto* bell = static_cast<Bell*>(raw);
  auto& self = *bell->owner;
  if (!status.ok()) {
    self.on_shut_down(bell);
    return;
  }
  const bool more = self.handlers_.rung();
  grpc_fd_notify_on_read(bell->fd, &bell->rung);
  if (more) self.waker_.wake();
}

void Doorbell::on_shut_down(Bell* bell) {
  {
    LockGuard<Mutex> guard(lock_);
    if (bell_ == nullptr) handlers_.silenced();
  }
  run_tasks();
  grpc_fd_orphan(bell->fd, nullptr, nullptr, "no connection is left");
  delete bell;
}

bool Doorbell::take_out(epoll_event* events, int& count) {
  LockGuard<Mutex> guard(lock_);
  if (bell_ == nullptr || count <= 0) return false;
  const auto ours = [&](const epoll_event& event) FERRY_NO_THREAD_SAFETY_ANALYSIS {
    const auto tagged = reinterpret_cast<std::uintptr_t>(event.data.ptr);
    return (tagged & ~std::uintptr_t{1}) == reinterpret_cast<std::uintptr_t>(bell_->fd);
  };
  const auto left = static_cast<int>(std::remove_if(events, events + count, ours) - events);
  return std::exchange(count, left) != left;
}

void Doorbell::disown() {
  attached_now_ = false;
  grpc_epoll_ = -1;
}

}  // namespace ferry::interop
