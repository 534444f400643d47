#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/optional.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

// What of gRPC 1.51.1 (core 29.0.0, as Debian builds it: without NDEBUG) is not in its public
// headers and is needed to register handshakers and to be an endpoint: declarations of our own,
// with its names and layouts. docs/design/grpc-endpoint.md lists them; tests/scripts/grpc_abi.sh
// compares them with gRPC's sources.
//
// Everything of gRPC is weak: the plug-in may be loaded into programs that do not use gRPC, and
// must not drag it in.

#ifdef NDEBUG
#error "Debian's gRPC is built without NDEBUG, which changes layouts: build this without it, too"
#endif

#define FERRY_GRPC_ABI __attribute__((weak, visibility("default")))

namespace ferry::interop {
inline constexpr const char* kGrpcCoreVersion = "29.0.0";
inline constexpr const char* kGrpcVersion = "1.51.1";
// Of the handshaker registry inside CoreConfiguration::Builder, which has no accessor outside.
inline constexpr std::size_t kHandshakerRegistryAt = 168;
// std::atomic<CoreConfiguration*>: not null once gRPC was used. Data cannot be weak as functions
// are, so it is looked up.
inline constexpr const char* kConfigurationSymbol = "_ZN9grpc_core17CoreConfiguration7config_E";
}  // namespace ferry::interop

struct grpc_pollset;
struct grpc_pollset_set;
struct grpc_fd;
struct grpc_tcp_server_acceptor;

struct grpc_closure {
  std::uintptr_t next;
  void (*cb)(void*, absl::Status);
  void* cb_arg;
  std::uintptr_t error;
  bool scheduled;
  bool run;
  const char* file_created;
  int line_created;
  const char* file_initiated;
  int line_initiated;
};

struct grpc_endpoint;
struct grpc_endpoint_vtable {
  void (*read)(grpc_endpoint*, grpc_slice_buffer*, grpc_closure*, bool urgent, int min_progress);
  void (*write)(grpc_endpoint*, grpc_slice_buffer*, grpc_closure*, void* arg, int max_frame_size);
  void (*add_to_pollset)(grpc_endpoint*, grpc_pollset*);
  void (*add_to_pollset_set)(grpc_endpoint*, grpc_pollset_set*);
  void (*delete_from_pollset_set)(grpc_endpoint*, grpc_pollset_set*);
  void (*shutdown)(grpc_endpoint*, absl::Status why);
  void (*destroy)(grpc_endpoint*);
  absl::string_view (*get_peer)(grpc_endpoint*);
  absl::string_view (*get_local_address)(grpc_endpoint*);
  int (*get_fd)(grpc_endpoint*);
  bool (*can_track_err)(grpc_endpoint*);
};
struct grpc_endpoint {
  const grpc_endpoint_vtable* vtable;
};

FERRY_GRPC_ABI void grpc_endpoint_read(grpc_endpoint*, grpc_slice_buffer*, grpc_closure*, bool,
                                       int);
FERRY_GRPC_ABI void grpc_endpoint_write(grpc_endpoint*, grpc_slice_buffer*, grpc_closure*, void*,
                                        int);
FERRY_GRPC_ABI void grpc_endpoint_shutdown(grpc_endpoint*, absl::Status);
FERRY_GRPC_ABI void grpc_endpoint_destroy(grpc_endpoint*);
FERRY_GRPC_ABI void grpc_endpoint_add_to_pollset(grpc_endpoint*, grpc_pollset*);
FERRY_GRPC_ABI void grpc_endpoint_add_to_pollset_set(grpc_endpoint*, grpc_pollset_set*);
FERRY_GRPC_ABI void grpc_endpoint_delete_from_pollset_set(grpc_endpoint*, grpc_pollset_set*);
FERRY_GRPC_ABI absl::string_view grpc_endpoint_get_peer(grpc_endpoint*);
FERRY_GRPC_ABI absl::string_view grpc_endpoint_get_local_address(grpc_endpoint*);
FERRY_GRPC_ABI int grpc_endpoint_get_fd(grpc_endpoint*);

// Takes over `fd`, which is non-blocking.
FERRY_GRPC_ABI grpc_fd* grpc_fd_create(int fd, const char* name, bool track_err);
FERRY_GRPC_ABI void grpc_fd_orphan(grpc_fd*, grpc_closure* on_done, int* release, const char* why);
FERRY_GRPC_ABI void grpc_fd_shutdown(grpc_fd*, absl::Status why);
FERRY_GRPC_ABI void grpc_fd_notify_on_read(grpc_fd*, grpc_closure*);
FERRY_GRPC_ABI void grpc_fd_set_readable(grpc_fd*);
FERRY_GRPC_ABI void grpc_pollset_add_fd(grpc_pollset*, grpc_fd*);
FERRY_GRPC_ABI void grpc_pollset_set_add_fd(grpc_pollset_set*, grpc_fd*);
FERRY_GRPC_ABI void grpc_pollset_set_del_fd(grpc_pollset_set*, grpc_fd*);

// Public C functions that are used; weak as the rest.
extern "C" {
FERRY_GRPC_ABI extern const char* grpc_version_string(void);
FERRY_GRPC_ABI extern void grpc_slice_unref(grpc_slice);
FERRY_GRPC_ABI extern grpc_slice grpc_slice_malloc_large(size_t);
FERRY_GRPC_ABI extern grpc_slice grpc_slice_from_copied_buffer(const char*, size_t);
FERRY_GRPC_ABI extern grpc_slice grpc_slice_new_with_user_data(void*, size_t, void (*)(void*),
                                                               void*);
FERRY_GRPC_ABI extern void grpc_slice_buffer_init(grpc_slice_buffer*);
FERRY_GRPC_ABI extern void grpc_slice_buffer_destroy(grpc_slice_buffer*);
FERRY_GRPC_ABI extern void grpc_slice_buffer_add(grpc_slice_buffer*, grpc_slice);
FERRY_GRPC_ABI extern size_t grpc_slice_buffer_add_indexed(grpc_slice_buffer*, grpc_slice);
FERRY_GRPC_ABI extern void grpc_slice_buffer_swap(grpc_slice_buffer*, grpc_slice_buffer*);
FERRY_GRPC_ABI extern void grpc_slice_buffer_reset_and_unref(grpc_slice_buffer*);
FERRY_GRPC_ABI extern void gpr_free(void*);
}

namespace grpc_core {

class DebugLocation {
 public:
  explicit DebugLocation(const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : file_(file), line_(line) {}

 private:
  [[maybe_unused]] const char* file_;
  [[maybe_unused]] int line_;
};

enum class StatusIntProperty { kRpcStatus = 3 };
FERRY_GRPC_ABI void StatusSetInt(absl::Status*, StatusIntProperty, std::intptr_t);

class ExecCtx {
 public:
  FERRY_GRPC_ABI static void Run(const DebugLocation&, grpc_closure*, absl::Status);
};

class ChannelArgs {
 public:
  FERRY_GRPC_ABI ChannelArgs();
  FERRY_GRPC_ABI ChannelArgs(const ChannelArgs&);
  FERRY_GRPC_ABI ChannelArgs& operator=(ChannelArgs&&);
  FERRY_GRPC_ABI ~ChannelArgs();
  FERRY_GRPC_ABI absl::optional<int> GetInt(absl::string_view name) const;
  FERRY_GRPC_ABI bool Contains(absl::string_view name) const;

 private:
  std::shared_ptr<void> root_;  // an AVL tree
};

struct HandshakerArgs {
  grpc_endpoint* endpoint;
  ChannelArgs args;
  grpc_slice_buffer* read_buffer;
  bool exit_early;
  void* user_data;
  std::int64_t deadline;
};

// Counted by gRPC, which deletes it through its virtual destructor.
class Handshaker {
 public:
  virtual ~Handshaker() = default;
  virtual void Shutdown(absl::Status why) = 0;
  virtual void DoHandshake(grpc_tcp_server_acceptor*, grpc_closure* on_done, HandshakerArgs*) = 0;
  virtual const char* name() const = 0;

  void ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  [[maybe_unused]] const char* trace_ = nullptr;
  std::atomic<std::intptr_t> refs_{1};
};

// Owns one count.
template <class T>
class RefCountedPtr {
 public:
  explicit RefCountedPtr(T* value) : value_(value) {}
  RefCountedPtr(const RefCountedPtr&) = delete;
  RefCountedPtr& operator=(const RefCountedPtr&) = delete;
  ~RefCountedPtr() {
    if (value_ != nullptr) value_->unref();
  }

 private:
  T* value_;
};

class HandshakeManager {
 public:
  FERRY_GRPC_ABI void Add(RefCountedPtr<Handshaker>);
};

class HandshakerFactory {
 public:
  enum class HandshakerPriority : int { kReadAheadSecurity = 3 };
  virtual void AddHandshakers(const ChannelArgs&, grpc_pollset_set* interested,
                              HandshakeManager*) = 0;
  virtual HandshakerPriority Priority() = 0;
  virtual ~HandshakerFactory() = default;
};

enum HandshakerType { HANDSHAKER_CLIENT = 0, HANDSHAKER_SERVER = 1 };

class HandshakerRegistry {
 public:
  class Builder {
   public:
    FERRY_GRPC_ABI void RegisterHandshakerFactory(HandshakerType,
                                                  std::unique_ptr<HandshakerFactory>);
  };
};

class CoreConfiguration {
 public:
  class Builder;
  FERRY_GRPC_ABI static void RegisterBuilder(std::function<void(Builder*)>);
};

}  // namespace grpc_core
