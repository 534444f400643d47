#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>

#include "ferry/interop/grpc_endpoint/doorbell_internal.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"

namespace ferry::interop {

// How gRPC's threads wait (docs/design/grpc-endpoint.md): what epoll_wait() does in this process.
// A thread that is about to wait for gRPC looks for work for a while, then tells peers to ring, and
// sleeps; work that it finds it does itself, and gRPC goes on with it when epoll_wait() returns.
//
// Thread-safe, lock-free of its own. wait() runs on every thread of the program that calls
// epoll_wait(), on_rung() and on_silenced() on threads of gRPC's. Before the device is open,
// nobody is attached to the doorbell, and wait() is the system's.
class EpollWaiter {
 public:
  EpollWaiter(PluginDevice& device, Waker& waker, Doorbell& doorbell, Endpoints& endpoints)
      : device_(device), waker_(waker), doorbell_(doorbell), endpoints_(endpoints) {}

  // One call of epoll_wait(), and the system's function for it.
  using SystemWait = int (*)(int epoll, epoll_event* events, int most, int timeout_ms);
  struct Call {
    SystemWait system = nullptr;
    int epoll = -1;
    epoll_event* events = nullptr;
    int most = 0;
    int timeout_ms = 0;

    int look() const { return system(epoll, events, most, 0); }
    int wait() const { return system(epoll, events, most, timeout_ms); }
  };
  // In place of epoll_wait(): returns what that would.
  int wait(const Call& call);

  // The doorbell's handlers. True: there may be more to do.
  bool on_rung();
  void on_silenced();

  // Whether there is something that progress() would do.
  bool has_work() const { return doorbell_.has_tasks() || endpoints_.any_ready(); }

 private:
  // True: the epoll is gRPC's, and nothing was done; else the system has waited, for `count`
  // events. The thread counts itself, then looks whose epoll it is; Doorbell::attach() does the
  // reverse. So a thread that sleeps since before gRPC had our descriptor is known.
  bool is_for_grpc(const Call& call, int& count);
  int wait_for_grpc(const Call& call);
  // Whether a thread may sleep on gRPC's epoll without having armed.
  bool sleeps_unarmed() const;
  // Completes what waits here; what gRPC is to do next is then in this thread's ExecCtx. Costs no
  // system call and no other thread. True: there may be more.
  bool progress();
  // progress() if there is work: false if there was none.
  bool serve();
  // Whether this wait is not to spin, because the last ones spun in vain.
  bool skips_spin();
  // Looks for work for a while. True: it was found and done, or events of gRPC's own descriptors
  // have come, and `count` says how many.
  bool spin(const Call& call, int& count);
  // Tells peers to ring. False: there is work, which came meanwhile.
  bool begin_sleep();
  int sleep(const Call& call);

  PluginDevice& device_;
  Waker& waker_;
  Doorbell& doorbell_;
  Endpoints& endpoints_;
  // A thread of gRPC's was seen in wait(). Until then the closure on the descriptor arms whenever
  // it waits, afterwards the thread that sleeps does.
  std::atomic<bool> hooked_{false};
  // Threads that wait without having armed, by epoll: which one is gRPC's may be known later.
  std::array<std::atomic<int>, 4096> unarmed_{};
  std::atomic<unsigned> vain_{0};     // spins in a row that found nothing
  std::atomic<unsigned> skipped_{0};  // waits that did not spin for that reason
  std::atomic<unsigned> served_{0};   // waits that found work without sleeping
};

}  // namespace ferry::interop
