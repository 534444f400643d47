#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/base/waiting.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"

namespace ferry::interop {

namespace {

void run(grpc_closure* closure, const absl::Status& status) {
  grpc_core::ExecCtx::Run(grpc_core::DebugLocation(), closure, status);
}

}  // namespace

const grpc_endpoint_vtable FerryEndpoint::kVtable = {
    [](grpc_endpoint* self, grpc_slice_buffer* into, grpc_closure* done, bool, int) {
      of(self).read(into, done);
    },
    [](grpc_endpoint* self, grpc_slice_buffer* from, grpc_closure* done, void*, int) {
      of(self).write(from, done);
    },
    [](grpc_endpoint* self, grpc_pollset* pollset) {
      grpc_pollset_add_fd(pollset, of(self).wire_->descriptor());
      of(self).around_.doorbell.watch(pollset);
    },
    [](grpc_endpoint* self, grpc_pollset_set* set) {
      grpc_pollset_set_add_fd(set, of(self).wire_->descriptor());
      of(self).around_.doorbell.watch(set, true);
    },
    [](grpc_endpoint* self, grpc_pollset_set* set) {
      grpc_pollset_set_del_fd(set, of(self).wire_->descriptor());
      of(self).around_.doorbell.watch(set, false);
    },
    [](grpc_endpoint* self, absl::Status why) { of(self).shutdown(why); },
    [](grpc_endpoint* self) { of(self).destroy(); },
    [](grpc_endpoint* self) { return absl::string_view(of(self).names_.peer); },
    [](grpc_endpoint* self) { return absl::string_view(of(self).names_.local); },
    [](grpc_endpoint* self) { return of(self).wire_->socket(); },
    [](grpc_endpoint*) { return false; },
};

grpc_endpoint* FerryEndpoint::make(const Around& around, std::shared_ptr<Link> link,
                                   std::shared_ptr<Wire> wire, grpc_endpoint* under, Names names) {
  link->peer = names.peer;
  link->client = under == nullptr;
  std::shared_ptr<FerryEndpoint> made(
      new FerryEndpoint(around, std::move(link), std::move(wire), under, std::move(names)));
  made->grpcs_ = made;
  (void)around.doorbell.attach();  // the handshake is attached, and so this cannot fail
  around.endpoints.add(made);
  made->wire_->listen([weak = made->weak_from_this()](bool stray) {
    if (auto self = weak.lock()) self->wire_down(stray);
  });
  to_grpc(made.get());
  return made.get();
}

FerryEndpoint::FerryEndpoint(const Around& around, std::shared_ptr<Link> link,
                             std::shared_ptr<Wire> wire, grpc_endpoint* under, Names names)
    : grpc_endpoint{&kVtable},
      around_(around),
      link_(std::move(link)),
      wire_(std::move(wire)),
      under_(under),
      names_(std::move(names)) {
  grpc_slice_buffer_init(&held_);
}

FerryEndpoint::~FerryEndpoint() {
  if (!sending_) {
    grpc_slice_buffer_destroy(&held_);
    return;
  }
  sending_.reset();
  auto* left = new grpc_slice_buffer;
  grpc_slice_buffer_init(left);
  grpc_slice_buffer_swap(left, &held_);
  grpc_slice_buffer_destroy(&held_);
  link_->afterwards = [left] {
    grpc_slice_buffer_destroy(left);
    delete left;
  };
}

void FerryEndpoint::read(grpc_slice_buffer* into, grpc_closure* done) {
  LockGuard<Mutex> guard(lock_);
  grpc_slice_buffer_reset_and_unref(into);
  into_ = into;
  read_done_ = done;
  reading_.store(true, std::memory_order_release);
  fill();
  recheck();
}

void FerryEndpoint::write(grpc_slice_buffer* from, grpc_closure* done) {
  LockGuard<Mutex> guard(lock_);
  write_done_ = done;
  if (ended_) {
    finish_write(why_);
    return;
  }
  if (drained_at_ != 0) {  // the peer is gone, and what was sent last may still be looked at
    finish_write(absl::OkStatus());
    return;
  }
  link_->counts.writes.fetch_add(1, std::memory_order_relaxed);
  link_->counts.sent_sizes.add(from->length);
  link_->counts.sent_bytes.fetch_add(from->length, std::memory_order_relaxed);
  grpc_slice_buffer_swap(from, &held_);
  next_ = pieces_until_ = {};
  busy_.store(true, std::memory_order_relaxed);
  push();
  if (write_done_ != nullptr) writing_.store(true, std::memory_order_seq_cst);
  busy_.store(false, std::memory_order_seq_cst);
  recheck();
}

void FerryEndpoint::progress() {
  if (busy_.load(std::memory_order_acquire)) return;
  LockGuard<Mutex> guard(lock_);
  resume();
  recheck();
}

void FerryEndpoint::recheck() {
  for (int i = 0; i < waiting::kGrpcRechecks && ready(); ++i) resume();
  if (ready() || (link_->is_room_crowded() && around_.endpoints.any_ready())) around_.waker.wake();
}

void FerryEndpoint::resume() {
  if (write_done_ != nullptr) push();
  if (read_done_ != nullptr) fill();
}

void FerryEndpoint::end(const Error& error) {
  logger().debug("gRPC's connection with {} ends: {}", names_.peer, error.to_string());
  end(unavailable_status("Socket closed"));
}

void FerryEndpoint::end(const absl::Status& why) {
  if (ended_) return;
  ended_ = true;
  why_ = why;
  if (read_done_ != nullptr) finish_read(why);
  if (write_done_ != nullptr) finish_write(why);
}

void FerryEndpoint::finish_read(const absl::Status& status) {
  reading_.store(false, std::memory_order_relaxed);
  run(std::exchange(read_done_, nullptr), status);
}

void FerryEndpoint::finish_write(const absl::Status& status) {
  writing_.store(false, std::memory_order_relaxed);
  blocked_.store(false, std::memory_order_relaxed);
  if (!sending_) grpc_slice_buffer_reset_and_unref(&held_);
  run(std::exchange(write_done_, nullptr), status);
}

void FerryEndpoint::shutdown(const absl::Status& why) {
  {
    LockGuard<Mutex> guard(lock_);
    end(why);
  }
  wire_->shutdown(why);
  if (under_ != nullptr) grpc_endpoint_shutdown(under_, why);
}

void FerryEndpoint::destroy() {
  shutdown(unavailable_status("endpoint destroyed"));
  around_.endpoints.remove(this);
  wire_->close();
  if (under_ != nullptr) grpc_endpoint_destroy(under_);
  const auto last = std::move(grpcs_);
  around_.doorbell.detach();
}

void FerryEndpoint::wire_down(bool stray) {
  LockGuard<Mutex> guard(lock_);
  if (ended_) return;
  if (stray) {
    logger().warn("gRPC peer {} sent bytes where none belong; the connection is closed",
                  names_.peer);
    end(unavailable_status("the peer broke the protocol"));
    return;
  }
  const auto drain = PluginOptions::get().scaled(kDrain);
  drained_at_ = Deadline::after(drain).ns();
  draining_.store(true, std::memory_order_relaxed);
  if (write_done_ != nullptr) finish_write(absl::OkStatus());
  if (read_done_ != nullptr) fill();
  if (!ended_ && !link_->maps()) around_.background.wake_for(drain);
}

}  // namespace ferry::interop
