// Data path.
#include <dlfcn.h>
#include <sys/epoll.h>

#include "ferry/base/clock.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"

// gRPC's threads that wait sleep in epoll_wait() at once. With FERRY_GRPC_SPIN_US they look for a
// while first: the C library's function is replaced for calls out of gRPC.

namespace ferry::interop {

namespace {

using EpollWait = int (*)(int, epoll_event*, int, int);

EpollWait system_epoll_wait() {
  static const auto found = reinterpret_cast<EpollWait>(::dlsym(RTLD_NEXT, "epoll_wait"));
  return found;
}

// Whether the code at `address` is in the library that gRPC's polling is in.
bool is_grpc(const void* address) {
  static const void* const base = [] {
    Dl_info info{};
    auto* inside = reinterpret_cast<void*>(&grpc_fd_notify_on_read);
    return inside != nullptr && ::dladdr(inside, &info) != 0 ? info.dli_fbase : nullptr;
  }();
  Dl_info info{};
  return base != nullptr && ::dladdr(address, &info) != 0 && info.dli_fbase == base;
}

int spin_then_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  const auto wait = system_epoll_wait();
  auto span = PluginOptions::get().spin.count();
  if (timeout_ms > 0) span = std::min<std::int64_t>(span, timeout_ms * 1'000'000LL);
  const auto until = now_ns() + span;
  do {
    const int count = wait(epoll, events, most, 0);
    if (count != 0) return count;
    cpu_relax();
  } while (now_ns() < until);
  return wait(epoll, events, most, timeout_ms);
}

}  // namespace

}  // namespace ferry::interop

extern "C" __attribute__((visibility("default"))) int epoll_wait(int epoll, epoll_event* events,
                                                                 int most, int timeout_ms) {
  using namespace ferry::interop;
  thread_local const void* known = nullptr;  // the last caller, and what it was
  thread_local bool grpc = false;
  const bool spins = PluginOptions::get().spin.count() != 0 && timeout_ms != 0;
  if (!spins) return system_epoll_wait()(epoll, events, most, timeout_ms);
  const void* caller = __builtin_return_address(0);
  if (caller != known) {
    known = caller;
    grpc = is_grpc(caller);
  }
  return grpc ? spin_then_wait(epoll, events, most, timeout_ms)
              : system_epoll_wait()(epoll, events, most, timeout_ms);
}
