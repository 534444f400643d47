#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "ferry/base/error.h"
#include "ferry/base/log.h"

namespace ferry::fabric::verbs {

// Move-only owners of the library's objects. What cannot be destroyed is logged: something that
// refers to it still lives.
namespace detail {
inline void destroyed(const char* what, int error) {
  if (error != 0) logger().error("verbs: destroying a {}: {}", what, text_of_errno(error));
}
}  // namespace detail

struct CloseHandle {
  void operator()(ibv_context* p) const { detail::destroyed("context", ibv_close_device(p)); }
  void operator()(ibv_pd* p) const { detail::destroyed("protection domain", ibv_dealloc_pd(p)); }
  void operator()(ibv_comp_channel* p) const {
    detail::destroyed("completion channel", ibv_destroy_comp_channel(p));
  }
  void operator()(ibv_cq* p) const { detail::destroyed("completion queue", ibv_destroy_cq(p)); }
  void operator()(ibv_srq* p) const { detail::destroyed("receive queue", ibv_destroy_srq(p)); }
  void operator()(ibv_qp* p) const { detail::destroyed("queue pair", ibv_destroy_qp(p)); }
  void operator()(ibv_mr* p) const { detail::destroyed("memory region", ibv_dereg_mr(p)); }
  void operator()(ibv_mw* p) const { detail::destroyed("memory window", ibv_dealloc_mw(p)); }
};

template <class T>
using Handle = std::unique_ptr<T, CloseHandle>;

}  // namespace ferry::fabric::verbs
