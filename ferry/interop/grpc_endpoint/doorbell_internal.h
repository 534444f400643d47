#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <functional>
#include <vector>

#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/waker_internal.h"

namespace ferry::interop {

// The device's descriptor as gRPC sees it: readable when there is something to do. It exists for
// gRPC only while somebody is attached (an endpoint or a handshake), because gRPC's shutdown waits
// for every descriptor that it knows. And the tasks that are to run on a thread of gRPC's.
//
// Thread-safe. attach(), detach() and watch() are called on threads of gRPC's, in an ExecCtx.
// Between calls gRPC has a descriptor of ours exactly if somebody is attached; one that was given
// up lives until gRPC has told that it is shut down.
class Doorbell {
 public:
  struct Handlers {
    // The descriptor is readable. On a thread of gRPC's; true: there may be more to do.
    std::function<bool()> rung;
    // Nobody is attached, and gRPC has given up the descriptor. With the doorbell's lock held, so
    // that nobody attaches meanwhile: must not call the doorbell.
    std::function<void()> silenced;
  };
  Doorbell(PluginDevice& device, Waker& waker, Handlers handlers)
      : device_(device), waker_(waker), handlers_(std::move(handlers)) {}

  // Fails only for the first.
  Status attach();
  void detach();
  bool attached() const { return attached_now_.load(std::memory_order_seq_cst); }
  // The descriptor is added to pollsets. While attached.
  void watch(grpc_pollset* pollset);
  void watch(grpc_pollset_set* set, bool on);

  // The task runs on a thread of gRPC's, soon, without locks of ours. If nobody is attached any
  // more, at once on this thread: then it finds that what it was to go on with is over.
  void post(std::function<void()> task);
  bool has_tasks() const { return has_tasks_.load(std::memory_order_acquire); }
  void run_tasks();

  // A descriptor was added to an epoll: if it is ours, the epoll is gRPC's.
  void note_epoll(int epoll, int fd) {
    if (fd >= 0 && fd == adding_.load(std::memory_order_relaxed)) grpc_epoll_.store(epoll);
  }
  // The epoll that gRPC's threads wait on, or -1.
  int grpc_epoll() const { return grpc_epoll_.load(std::memory_order_seq_cst); }
  // Takes our descriptor out of the events, which gRPC is not to see: true if it was there.
  bool take_out(epoll_event* events, int& count);
  // In the child of a fork(): an epoll of the child's may have the number of the parent's.
  void disown();

 private:
  // Deleted by its closure when gRPC has told that the descriptor is shut down.
  struct Bell {
    Doorbell* owner = nullptr;
    grpc_fd* fd = nullptr;
    grpc_closure rung{};
  };
  // gRPC's closure: the descriptor is readable, or was shut down.
  static void rung(void* bell, absl::Status status);
  // gRPC does not look at this bell any more: runs the tasks that wait for that, and deletes it.
  void on_shut_down(Bell* bell);

  PluginDevice& device_;
  Waker& waker_;
  const Handlers handlers_;

  Mutex lock_;
  Bell* bell_ FERRY_GUARDED_BY(lock_) = nullptr;
  std::size_t attached_ FERRY_GUARDED_BY(lock_) = 0;
  std::vector<std::function<void()>> tasks_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> has_tasks_{false};     // changed under lock_
  std::atomic<bool> attached_now_{false};  // changed under lock_
  std::atomic<int> adding_{-1};            // the descriptor that gRPC is being given
  std::atomic<int> grpc_epoll_{-1};
};

}  // namespace ferry::interop
