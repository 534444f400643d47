#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/handshakers_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"

namespace ferry::interop {

namespace {

// The first bytes of a client that asks for the plug-in. HTTP/2 begins with 'P', TLS with 22.
constexpr std::string_view kCallMagic = "FRRY";

// At which address a peer has reached this process; empty for local sockets.
std::string reached_at(int fd) {
  auto local = bootstrap::local_endpoint(fd);
  if (!local) return "";
  // gRPC's sockets are IPv6 ones that take IPv4 too.
  constexpr std::string_view kMapped = "::ffff:";
  if (local->host.starts_with(kMapped)) local->host.erase(0, kMapped.size());
  local->port = 0;
  return local->to_string();
}

// Copies the first bytes of the buffer, as many as there are and fit.
std::size_t peek(const grpc_slice_buffer& from, std::span<char> to) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < from.count && at < to.size(); ++i) {
    const auto size = std::min(GRPC_SLICE_LENGTH(from.slices[i]), to.size() - at);
    std::memcpy(to.data() + at, GRPC_SLICE_START_PTR(from.slices[i]), size);
    at += size;
  }
  return at;
}

// Looks at the first bytes of each connection. A client that asks for the plug-in is answered, and
// its connection becomes an endpoint of ours; the bytes of any other are left where they are.
//
// One step at a time is under way: a read, a write, or the wait for the client's link.
class ServerHandshaker final : public grpc_core::Handshaker {
 public:
  ServerHandshaker(Hub& hub, grpc_pollset_set* interested) : hub_(hub), interested_(interested) {
    grpc_slice_buffer_init(&incoming_);
    grpc_slice_buffer_init(&outgoing_);
    grpc_slice_buffer_init(&first_);
  }
  ~ServerHandshaker() override {
    from_grpc(this);
    remains_.destroy();
    grpc_slice_buffer_destroy(&incoming_);
    grpc_slice_buffer_destroy(&outgoing_);
    grpc_slice_buffer_destroy(&first_);
  }
  const char* name() const override { return "tensorferry"; }

  void DoHandshake(grpc_tcp_server_acceptor*, grpc_closure* done,
                   grpc_core::HandshakerArgs* args) override {
    from_grpc(this);
    LockGuard<Mutex> guard(lock_);
    done_ = done;
    args_ = args;
    const bool off = args->args.GetInt(kEnableArgument).value_or(1) == 0;
    if (off || args->endpoint == nullptr || grpc_endpoint_get_fd(args->endpoint) < 0) {
      leave_alone(off ? "the plug-in is off for this server" : "it has no socket");
      return;
    }
    grpc_slice_buffer_swap(&incoming_, args->read_buffer);
    if (incoming_.length == 0) {
      read_more();
    } else {
      take_in();
    }
  }

  void Shutdown(absl::Status why) override {
    from_grpc(this);
    LockGuard<Mutex> guard(lock_);
    if (done_ == nullptr || shut_) return;
    if (step_ == Step::kWait) {
      fail_handshake(why);
    } else {
      shut_ = true;  // the step under way ends with an error
      grpc_endpoint_shutdown(args_->endpoint, why);
    }
  }

 private:
  enum class Step : std::uint8_t { kRead, kWrite, kWait };

  // gRPC may call back at once, under the caller's locks.
  static void ended(void* self, absl::Status status) {
    from_grpc(self);
    auto* handshaker = static_cast<ServerHandshaker*>(self);
    handshaker->hop_.cb = &hopped;
    handshaker->hop_.cb_arg = self;
    to_grpc(self);
    grpc_core::ExecCtx::Run(grpc_core::DebugLocation(), &handshaker->hop_, status);
  }
  static void hopped(void* self, absl::Status status) {
    from_grpc(self);
    auto* handshaker = static_cast<ServerHandshaker*>(self);
    {
      LockGuard<Mutex> guard(handshaker->lock_);
      handshaker->advance(handshaker->shut_ && status.ok() ? absl::CancelledError("shut down")
                                                           : status);
    }
    handshaker->unref();
  }
  grpc_closure* begin(Step step) FERRY_REQUIRES(lock_) {
    ref();
    step_ = step;
    io_.cb = &ended;
    io_.cb_arg = this;
    to_grpc(this);
    return &io_;
  }

  // A step has ended: begins the next one.
  void advance(const absl::Status& status) FERRY_REQUIRES(lock_) {
    if (!status.ok()) {
      fail_handshake(status);
    } else if (step_ == Step::kRead) {
      take_in();
    } else if (!refused_.ok()) {
      fail_handshake(refused_);
    } else if (call_->done()) {
      await_link();
    } else {
      read_more();
    }
  }

  void read_more() FERRY_REQUIRES(lock_) {
    grpc_endpoint_read(args_->endpoint, &incoming_, begin(Step::kRead), true, 1);
  }

  void leave_alone(const char* why) FERRY_REQUIRES(lock_) {
    if (args_->endpoint != nullptr) hub_.links().note_plain(false, peer_text(), why);
    finish_handshake(std::exchange(done_, nullptr), absl::OkStatus());
  }

  void fail_handshake(const absl::Status& why) FERRY_REQUIRES(lock_) {
    if (expecting_) hub_.acceptor().forget(token_);
    if (auto wire = std::exchange(wire_, nullptr)) wire->close();
    if (!shut_) grpc_endpoint_shutdown(args_->endpoint, why);
    shut_ = true;
    remains_ = HandshakeRemains::take(*args_);
    finish_handshake(std::exchange(done_, nullptr), why);
    if (attached_) leave_hub();
  }

  Status join_hub() FERRY_REQUIRES(lock_) {
    FERRY_TRY(hub_.doorbell().attach());
    attached_ = true;
    hub_.doorbell().watch(interested_, true);
    return {};
  }
  void leave_hub() FERRY_REQUIRES(lock_) {
    attached_ = false;
    hub_.doorbell().watch(interested_, false);
    hub_.doorbell().detach();
  }

  void take_in() FERRY_REQUIRES(lock_) {
    if (call_) {
      feed();
      return;
    }
    for (std::size_t i = 0; i < incoming_.count; ++i)
      grpc_slice_buffer_add(&first_, incoming_.slices[i]);
    incoming_.count = 0;  // moved
    incoming_.length = 0;
    std::array<char, kCallMagic.size()> start{};
    const auto seen = peek(first_, start);
    if (!kCallMagic.starts_with(std::string_view(start.data(), seen))) {
      grpc_slice_buffer_swap(args_->read_buffer, &first_);
      leave_alone("the client did not ask for the plug-in on it");
    } else if (seen < start.size()) {
      read_more();
    } else if (auto begun = begin_call(); !begun) {
      fail_handshake(absl::UnavailableError(begun.error().message()));
    } else {
      grpc_slice_buffer_swap(&incoming_, &first_);
      feed();
    }
  }

  Status begin_call() FERRY_REQUIRES(lock_) {
    FERRY_TRY(hub_.open(reached_at(grpc_endpoint_get_fd(args_->endpoint))));
    FERRY_TRY(bootstrap::random_bytes(token_));
    FERRY_TRY(join_hub());
    bootstrap::Hello mine;
    mine.purpose = bootstrap::Purpose::kGuest;
    mine.blob = hub_.acceptor().expect(
        token_, thresholds_of(args_->args), [self = share()](std::shared_ptr<Link> link) {
          self->hub_.doorbell().post([self, link = std::move(link)] { self->link_arrived(link); });
        });
    expecting_ = true;
    call_.emplace(FERRY_TRY(bootstrap::Handshake::open(
        bootstrap::Role::kAcceptor, hub_.secret(), std::move(mine), [](const auto& peer) -> Status {
          if (peer.purpose == bootstrap::Purpose::kGuest) return {};
          return fail(Code::kInvalidArgument, "this is the port of a gRPC server");
        })));
    return {};
  }

  // A count of gRPC's, as a handle.
  std::shared_ptr<ServerHandshaker> share() {
    ref();
    return {this, [](ServerHandshaker* last) { last->unref(); }};
  }

  // The client's part of the handshake; then what is to be said to that.
  void feed() FERRY_REQUIRES(lock_) {
    Status status;
    for (std::size_t i = 0; i < incoming_.count && status; ++i)
      status = call_->consume(
          {reinterpret_cast<const std::byte*>(GRPC_SLICE_START_PTR(incoming_.slices[i])),
           GRPC_SLICE_LENGTH(incoming_.slices[i])});
    grpc_slice_buffer_reset_and_unref(&incoming_);
    if (status && call_->done() && !call_->rest().empty())
      status = fail(Code::kInvalidArgument, "bytes came after the handshake");
    if (!status) {
      refused_ = absl::UnavailableError(status.error().message());
      logger().info("gRPC client {} is refused: {}", peer_text(), status.error().to_string());
    }
    if (!call_->output().empty()) {
      answer();
    } else if (status) {
      read_more();
    } else {
      fail_handshake(refused_);
    }
  }

  void answer() FERRY_REQUIRES(lock_) {
    const auto output = call_->output();
    const auto* text = reinterpret_cast<const char*>(output.data());
    grpc_slice_buffer_reset_and_unref(&outgoing_);
    grpc_slice_buffer_add(&outgoing_, grpc_slice_from_copied_buffer(text, output.size()));
    call_->consumed_output(output.size());
    grpc_endpoint_write(args_->endpoint, &outgoing_, begin(Step::kWrite), nullptr,
                        std::numeric_limits<int>::max());
  }

  void await_link() FERRY_REQUIRES(lock_) {
    step_ = Step::kWait;
    if (link_) {
      complete();
      return;
    }
    if (!watch_wire()) return;
    grpc_pollset_set_add_fd(interested_, wire_->descriptor());
    wire_->listen([self = share()](bool) {
      self->hub_.doorbell().post([self] {
        LockGuard<Mutex> guard(self->lock_);
        if (self->done_ != nullptr && self->wire_ != nullptr)
          self->fail_handshake(absl::UnavailableError("the client has gone"));
      });
    });
  }

  // False: there is no descriptor for it, and the handshake has failed.
  bool watch_wire() FERRY_REQUIRES(lock_) {
    Fd socket(::fcntl(grpc_endpoint_get_fd(args_->endpoint), F_DUPFD_CLOEXEC, 0));
    if (!socket) {
      fail_handshake(absl::UnavailableError("no descriptor is left: " + text_of_errno(errno)));
      return false;
    }
    wire_ = Wire::watch(std::move(socket));
    return true;
  }

  void link_arrived(const std::shared_ptr<Link>& link) {
    LockGuard<Mutex> guard(lock_);
    expecting_ = false;
    if (done_ == nullptr || shut_) return;
    if (link == nullptr) {
      refused_ = absl::UnavailableError("the link was not opened");
      if (step_ == Step::kWait) fail_handshake(refused_);
      return;
    }
    link_ = link;
    if (step_ == Step::kWait) complete();
  }

  void complete() FERRY_REQUIRES(lock_) {
    FerryEndpoint::Names names{peer_text(),
                               std::string(grpc_endpoint_get_local_address(args_->endpoint))};
    if (wire_ == nullptr) {
      if (!watch_wire()) return;
    } else {
      grpc_pollset_set_del_fd(interested_, wire_->descriptor());
    }
    args_->endpoint = hub_.make_endpoint(std::move(link_), std::exchange(wire_, nullptr),
                                         args_->endpoint, std::move(names));
    finish_handshake(std::exchange(done_, nullptr), absl::OkStatus());
    leave_hub();
  }

  std::string peer_text() const FERRY_REQUIRES(lock_) {
    return std::string(grpc_endpoint_get_peer(args_->endpoint));
  }

  Hub& hub_;
  grpc_pollset_set* const interested_;
  Mutex lock_;
  grpc_closure* done_ FERRY_GUARDED_BY(lock_) = nullptr;  // null: not begun, or over
  grpc_core::HandshakerArgs* args_ FERRY_GUARDED_BY(lock_) = nullptr;
  HandshakeRemains remains_ FERRY_GUARDED_BY(lock_);
  Step step_ FERRY_GUARDED_BY(lock_) = Step::kRead;
  bool shut_ FERRY_GUARDED_BY(lock_) = false;
  bool attached_ FERRY_GUARDED_BY(lock_) = false;
  bool expecting_ FERRY_GUARDED_BY(lock_) = false;
  grpc_closure io_ FERRY_GUARDED_BY(lock_){};
  grpc_closure hop_{};
  grpc_slice_buffer first_ FERRY_GUARDED_BY(lock_);  // what came before it was known who calls
  grpc_slice_buffer incoming_ FERRY_GUARDED_BY(lock_);
  grpc_slice_buffer outgoing_ FERRY_GUARDED_BY(lock_);
  std::optional<bootstrap::Handshake> call_ FERRY_GUARDED_BY(lock_);
  absl::Status refused_ FERRY_GUARDED_BY(lock_);
  CallToken token_ FERRY_GUARDED_BY(lock_){};
  std::shared_ptr<Link> link_ FERRY_GUARDED_BY(lock_);
  std::shared_ptr<Wire> wire_ FERRY_GUARDED_BY(lock_);
};

class ServerFactory final : public grpc_core::HandshakerFactory {
 public:
  explicit ServerFactory(Hub& hub) : hub_(hub) {}
  void AddHandshakers(const grpc_core::ChannelArgs&, grpc_pollset_set* interested,
                      grpc_core::HandshakeManager* manager) override {
    add_handshaker(*manager, new ServerHandshaker(hub_, interested));
  }
  HandshakerPriority Priority() override { return HandshakerPriority::kReadAheadSecurity; }

 private:
  Hub& hub_;
};

}  // namespace

std::unique_ptr<grpc_core::HandshakerFactory> server_factory(Hub& hub) {
  return std::make_unique<ServerFactory>(hub);
}

}  // namespace ferry::interop
