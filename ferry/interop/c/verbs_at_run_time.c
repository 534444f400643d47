// libibverbs for programs that must run without it: the functions that the library calls, found by
// dlopen() when one is first called. That is ibv_get_device_list(); where there is no libibverbs
// the list is null, with errno ENOSYS as of a kernel without RDMA, and nothing else is called.
// libibverbs.so.1 keeps its interface; what its header has inline needs no symbol.

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Inline functions of the header that stand before functions of the same name.
#undef ibv_get_device_list
#undef ibv_query_port

static void* find(const char* name) {
  static void* library;
  void* found = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
  if (found == NULL) {
    found = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);  // again: the same, counted
    if (found == NULL) return NULL;
    __atomic_store_n(&library, found, __ATOMIC_RELEASE);
  }
  return dlsym(found, name);
}

#define FORWARD(result, name, parameters, arguments)            \
  result name parameters {                                      \
    static void* function;                                      \
    void* found = __atomic_load_n(&function, __ATOMIC_RELAXED); \
    if (found == NULL) {                                        \
      found = find(#name);                                      \
      if (found == NULL) abort(); /* no list, no device */      \
      __atomic_store_n(&function, found, __ATOMIC_RELAXED);     \
    }                                                           \
    return ((result(*) parameters)found)arguments;              \
  }

struct ibv_device** ibv_get_device_list(int* count) {
  struct ibv_device** (*function)(int*) = (struct ibv_device * *(*)(int*)) find(__func__);
  if (function != NULL) return function(count);
  if (count != NULL) *count = 0;
  errno = ENOSYS;
  return NULL;
}

typedef struct ibv_context Context;
typedef struct ibv_cq Cq;
typedef struct ibv_pd Pd;
typedef struct ibv_qp Qp;
typedef struct ibv_srq Srq;
typedef struct ibv_mr Mr;
typedef struct ibv_comp_channel Events;
typedef struct ibv_async_event AsyncEvent;

FORWARD(void, ibv_free_device_list, (struct ibv_device * *list), (list))
FORWARD(const char*, ibv_get_device_name, (struct ibv_device * device), (device))
FORWARD(Context*, ibv_open_device, (struct ibv_device * device), (device))
FORWARD(int, ibv_close_device, (Context * context), (context))
FORWARD(int, ibv_get_async_event, (Context * context, AsyncEvent* event), (context, event))
FORWARD(void, ibv_ack_async_event, (AsyncEvent * event), (event))
FORWARD(const char*, ibv_event_type_str, (enum ibv_event_type type), (type))
FORWARD(int, ibv_query_device, (Context * context, struct ibv_device_attr* limits),
        (context, limits))
FORWARD(int, ibv_query_port, (Context * context, uint8_t port, struct _compat_ibv_port_attr* out),
        (context, port, out))
FORWARD(ssize_t, _ibv_query_gid_table,
        (Context * context, struct ibv_gid_entry* entries, size_t most, uint32_t flags,
         size_t size),
        (context, entries, most, flags, size))
FORWARD(Pd*, ibv_alloc_pd, (Context * context), (context))
FORWARD(int, ibv_dealloc_pd, (Pd * pd), (pd))
FORWARD(Mr*, ibv_reg_mr_iova2,
        (Pd * pd, void* data, size_t bytes, uint64_t iova, unsigned int access),
        (pd, data, bytes, iova, access))
FORWARD(int, ibv_dereg_mr, (Mr * mr), (mr))
FORWARD(Events*, ibv_create_comp_channel, (Context * context), (context))
FORWARD(int, ibv_destroy_comp_channel, (Events * events), (events))
FORWARD(Cq*, ibv_create_cq, (Context * context, int entries, void* of, Events* events, int vector),
        (context, entries, of, events, vector))
FORWARD(int, ibv_resize_cq, (Cq * cq, int entries), (cq, entries))
FORWARD(int, ibv_destroy_cq, (Cq * cq), (cq))
FORWARD(int, ibv_get_cq_event, (Events * events, Cq** cq, void** of), (events, cq, of))
FORWARD(void, ibv_ack_cq_events, (Cq * cq, unsigned int count), (cq, count))
FORWARD(Srq*, ibv_create_srq, (Pd * pd, struct ibv_srq_init_attr* attributes), (pd, attributes))
FORWARD(int, ibv_destroy_srq, (Srq * srq), (srq))
FORWARD(Qp*, ibv_create_qp, (Pd * pd, struct ibv_qp_init_attr* attributes), (pd, attributes))
FORWARD(int, ibv_modify_qp, (Qp * qp, struct ibv_qp_attr* attributes, int mask),
        (qp, attributes, mask))
FORWARD(int, ibv_query_qp_data_in_order, (Qp * qp, enum ibv_wr_opcode operation, uint32_t flags),
        (qp, operation, flags))
FORWARD(int, ibv_destroy_qp, (Qp * qp), (qp))
FORWARD(const char*, ibv_wc_status_str, (enum ibv_wc_status status), (status))
