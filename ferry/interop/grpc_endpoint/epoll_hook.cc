// Data path.
#include <dlfcn.h>
#include <sys/epoll.h>

#include "ferry/interop/grpc_endpoint/hub_internal.h"
#include "ferry/interop/grpc_endpoint/unserved_internal.h"

// gRPC's threads wait in epoll_wait(). Two functions of the C library are replaced: one tells which
// epoll it is that gRPC watches our descriptor with, the other is where its threads wait.

namespace ferry::interop {

namespace {

template <class Function>
Function system_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

}  // namespace ferry::interop

extern "C" __attribute__((visibility("default"))) int epoll_ctl(int epoll, int operation, int fd,
                                                                epoll_event* event) noexcept {
  using namespace ferry::interop;
  using Control = int (*)(int, int, int, epoll_event*);
  static const auto control = system_function<Control>("epoll_ctl");
  if (operation == EPOLL_CTL_ADD) {
    Hub::get().note_epoll(epoll, fd);
    note_epoll_caller(__builtin_return_address(0));
  }
  return control(epoll, operation, fd, event);
}

extern "C" __attribute__((visibility("default"))) int epoll_wait(int epoll, epoll_event* events,
                                                                 int most, int timeout_ms) {
  using namespace ferry::interop;
  static const auto wait = system_function<Hub::SystemWait>("epoll_wait");
  return Hub::get().wait_for_grpc(wait, epoll, events, most, timeout_ms);
}
