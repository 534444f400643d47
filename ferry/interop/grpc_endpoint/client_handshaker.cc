#include <map>
#include <string>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/handshakers_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"

namespace ferry::interop {

namespace {

// For the answer of a server that may not know the plug-in. One that does not is quick to say so.
constexpr auto kAskLimit = std::chrono::seconds(4);
// A server without the plug-in is not asked again for so long.
constexpr auto kRemember = std::chrono::seconds(10);
constexpr const char* kProxyArgument = "grpc.http_connect_server";

// Servers that were asked in vain. Thread-safe.
class PlainServers {
 public:
  bool known(const SocketAddress& server) {
    LockGuard<Mutex> guard(lock_);
    auto found = until_.find(server);
    if (found == until_.end()) return false;
    if (now_ns() < found->second) return true;
    until_.erase(found);
    return false;
  }
  void note(const SocketAddress& server) {
    LockGuard<Mutex> guard(lock_);
    until_[server] = Deadline::after(kRemember).ns();
  }

 private:
  Mutex lock_;
  std::map<SocketAddress, std::int64_t> until_ FERRY_GUARDED_BY(lock_);
};

PlainServers& plain_servers() {
  static auto* const servers = new PlainServers;
  return *servers;
}

// Asks the server, on a connection beside gRPC's own, whether it has the plug-in. If so, that
// connection takes the place of gRPC's; if not, gRPC's has seen nothing.
class ClientHandshaker final : public grpc_core::Handshaker {
 public:
  ClientHandshaker(Hub& hub, grpc_pollset_set* interested) : hub_(hub), interested_(interested) {}
  ~ClientHandshaker() override { from_grpc(this); }
  const char* name() const override { return "tensorferry"; }

  void DoHandshake(grpc_tcp_server_acceptor*, grpc_closure* done,
                   grpc_core::HandshakerArgs* args) override {
    from_grpc(this);
    auto server = wanted(*args);
    const auto attached = server ? hub_.doorbell().attach() : tl::unexpected<Error>(server.error());
    if (!attached) {
      if (args->endpoint != nullptr)
        hub_.links().note_plain(true, std::string(grpc_endpoint_get_peer(args->endpoint)),
                                attached.error().message());
      finish_handshake(done, absl::OkStatus());
      return;
    }
    {
      LockGuard<Mutex> guard(lock_);
      done_ = done;
      args_ = args;
    }
    hub_.doorbell().watch(interested_, true);
    ref();
    run_aside([this, server = *std::move(server), set = thresholds_of(args->args)] {
      const auto limit = Deadline::after(PluginOptions::get().scaled(kAskLimit));
      auto dialled = hub_.dialler().dial(server, set, limit);
      if (!dialled) plain_servers().note(server);
      auto shared = std::make_shared<Result<Dialled>>(std::move(dialled));
      hub_.doorbell().post([this, shared] {
        finish(std::move(*shared));
        unref();
      });
    });
  }

  void Shutdown(absl::Status why) override {
    from_grpc(this);
    LockGuard<Mutex> guard(lock_);
    if (done_ == nullptr) return;
    auto remains = HandshakeRemains::take(*args_);
    grpc_endpoint_shutdown(remains.endpoint, why);
    remains.destroy();
    finish_handshake(std::exchange(done_, nullptr), why);
    leave_hub();
  }

 private:
  // The server's address, if it is to be asked.
  Result<SocketAddress> wanted(const grpc_core::HandshakerArgs& args) const {
    if (args.args.GetInt(kEnableArgument).value_or(1) == 0)
      return fail(Code::kCancelled, "{} is 0 for this channel", kEnableArgument);
    if (args.args.Contains(kProxyArgument))
      return fail(Code::kUnimplemented, "it goes through a proxy");
    const int fd = args.endpoint == nullptr ? -1 : grpc_endpoint_get_fd(args.endpoint);
    if (fd < 0) return fail(Code::kUnimplemented, "it has no socket");
    auto server = FERRY_TRY(SocketAddress::of_peer(fd));
    if (plain_servers().known(server))
      return fail(Code::kUnavailable, "the server was asked in vain within the last {} s",
                  kRemember.count());
    FERRY_TRY(hub_.open(""));
    return server;
  }

  // The call has ended: gRPC goes on with its result, or with its own connection.
  void finish(Result<Dialled> dialled) {
    LockGuard<Mutex> guard(lock_);
    if (done_ == nullptr) return;
    if (dialled) {
      replace(*std::move(dialled));
    } else {
      hub_.links().note_plain(true, peer_text(), dialled.error().message());
    }
    finish_handshake(std::exchange(done_, nullptr), absl::OkStatus());
    leave_hub();
  }

  void leave_hub() const {
    hub_.doorbell().watch(interested_, false);
    hub_.doorbell().detach();
  }

  std::string peer_text() const FERRY_REQUIRES(lock_) {
    return std::string(grpc_endpoint_get_peer(args_->endpoint));
  }

  void replace(Dialled dialled) FERRY_REQUIRES(lock_) {
    auto* plain = args_->endpoint;
    FerryEndpoint::Names names{peer_text(), std::string(grpc_endpoint_get_local_address(plain))};
    args_->endpoint = hub_.make_endpoint(
        std::move(dialled.link), Wire::watch(std::move(dialled.wire)), nullptr, std::move(names));
    // gRPC takes the endpoint out of the set that it was put into for the handshake.
    args_->endpoint->vtable->add_to_pollset_set(args_->endpoint, interested_);
    grpc_endpoint_delete_from_pollset_set(plain, interested_);
    grpc_endpoint_shutdown(plain, absl::CancelledError("another connection is used"));
    grpc_endpoint_destroy(plain);
  }

  Hub& hub_;
  grpc_pollset_set* const interested_;
  Mutex lock_;
  grpc_closure* done_ FERRY_GUARDED_BY(lock_) = nullptr;  // null: not begun, or over
  grpc_core::HandshakerArgs* args_ FERRY_GUARDED_BY(lock_) = nullptr;
};

class ClientFactory final : public grpc_core::HandshakerFactory {
 public:
  explicit ClientFactory(Hub& hub) : hub_(hub) {}
  void AddHandshakers(const grpc_core::ChannelArgs&, grpc_pollset_set* interested,
                      grpc_core::HandshakeManager* manager) override {
    add_handshaker(*manager, new ClientHandshaker(hub_, interested));
  }
  HandshakerPriority Priority() override { return HandshakerPriority::kReadAheadSecurity; }

 private:
  Hub& hub_;
};

}  // namespace

std::unique_ptr<grpc_core::HandshakerFactory> client_factory(Hub& hub) {
  return std::make_unique<ClientFactory>(hub);
}

HandshakeRemains HandshakeRemains::take(grpc_core::HandshakerArgs& args) {
  HandshakeRemains remains{std::exchange(args.endpoint, nullptr),
                           std::exchange(args.read_buffer, nullptr)};
  args.args = grpc_core::ChannelArgs();
  return remains;
}

void HandshakeRemains::destroy() {
  if (endpoint != nullptr) grpc_endpoint_destroy(endpoint);
  if (read_buffer != nullptr) {
    grpc_slice_buffer_destroy(read_buffer);
    gpr_free(read_buffer);
  }
  *this = {};
}

}  // namespace ferry::interop
