// Data path.
#include <dlfcn.h>
#include <sys/epoll.h>

#include "ferry/interop/grpc_endpoint/entry_internal.h"
#include "ferry/interop/grpc_endpoint/unserved_internal.h"

// The functions that the plug-in replaces, for calls from anywhere in the process. epoll_ctl()
// tells which epoll it is that gRPC watches our descriptor with, epoll_wait() is where gRPC's
// threads wait, and grpc_slice_malloc() is where large messages are built.

namespace ferry::interop {

namespace {

template <class Function>
Function system_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

using Malloc = grpc_slice (*)(size_t);

// gRPC's own. A program may have loaded gRPC where only those see it who ask for it by name; it
// calls the function that replaces this one all the same.
Malloc find_malloc() {
  constexpr const char* kName = "grpc_slice_malloc";
  void* found = ::dlsym(RTLD_NEXT, kName);
  if (found != nullptr) return reinterpret_cast<Malloc>(found);
  void* grpc = ::dlopen("libgrpc.so.29", RTLD_LAZY | RTLD_NOLOAD);
  if (grpc != nullptr) found = ::dlsym(grpc, kName);  // without a handle it would be our own
  return reinterpret_cast<Malloc>(found);
}

}  // namespace

}  // namespace ferry::interop

extern "C" __attribute__((visibility("default"))) int epoll_ctl(int epoll, int operation, int fd,
                                                                epoll_event* event) noexcept {
  using namespace ferry::interop;
  using Control = int (*)(int, int, int, epoll_event*);
  static const auto control = system_function<Control>("epoll_ctl");
  if (operation == EPOLL_CTL_ADD) {
    process_hub().doorbell().note_epoll(epoll, fd);
    note_epoll_caller(__builtin_return_address(0));
  }
  return control(epoll, operation, fd, event);
}

extern "C" __attribute__((visibility("default"))) int epoll_wait(int epoll, epoll_event* events,
                                                                 int most, int timeout_ms) {
  using namespace ferry::interop;
  static const auto wait = system_function<EpollWaiter::SystemWait>("epoll_wait");
  return process_hub().waiter().wait({wait, epoll, events, most, timeout_ms});
}

extern "C" __attribute__((visibility("default"))) grpc_slice grpc_slice_malloc(size_t length) {
  using namespace ferry::interop;
  static const auto plain = find_malloc();
  const auto shared = process_hub().slices().make_slice(length);
  return shared ? *shared : plain(length);
}
