#include "ferry/fabric/tcp/provider.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <map>

#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/dial.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/fabric/tcp/lane_internal.h"

namespace ferry::fabric::tcp {

namespace {

// Larger ones, and the kernel's own growing of them, fall out of the cache and lose.
constexpr int kSocketBuffer = 256 * 1024;

Status prepare_socket(int fd, Nanos give_up) {
  // The kernel keeps the value within net.core.[rw]mem_max: less is slower, not wrong.
  for (int option : {SO_SNDBUF, SO_RCVBUF})
    ::setsockopt(fd, SOL_SOCKET, option, &kSocketBuffer, sizeof kSocketBuffer);
  // A stopped peer whose window is full counts as silent for this, too: no sooner than it is given
  // up. A host that is gone is found by the control connection.
  return bootstrap::set_user_timeout(
      fd, std::chrono::duration_cast<std::chrono::milliseconds>(give_up));
}

class TcpProvider final : public Provider {
 public:
  explicit TcpProvider(ProviderContext& context) : context_(context) {
    for (auto& loop : *context.loops) sources_.push_back(std::make_unique<TcpSource>(*loop));
  }
  ~TcpProvider() override;

  std::string_view name() const override { return "tcp"; }
  const Capabilities& capabilities() const override { return TcpLane::what_it_can(); }
  std::vector<std::byte> offer() const override { return {}; }
  Status usable(const PeerIdentity& peer, std::span<const std::byte>) const override {
    FERRY_TRY(bootstrap::Endpoint::parse(peer.endpoint));
    return {};
  }

  Result<std::shared_ptr<Lane>> connect(std::shared_ptr<PeerSession> peer, std::uint32_t lane,
                                        std::span<const std::byte> peer_offer, Loop& loop,
                                        const CallAccept& call, Deadline deadline) override;
  Result<Accepted> accept(std::shared_ptr<PeerSession> peer, std::uint32_t lane,
                          std::span<const std::byte> request, Loop& loop) override;
  Status adopt(Fd socket, std::uint64_t token, std::span<const std::byte> rest) override;
  void revoke(const GrantTable::Grant& grant, std::function<void()> quiet) override;
  void forget(PeerSession& peer) override;

  Status attach(const memory::Block&) override { return {}; }
  void detach(const memory::Block&) override {}

 private:
  std::shared_ptr<TcpLane> make_lane(std::shared_ptr<PeerSession> peer, std::uint32_t lane,
                                     Loop& loop);

  ProviderContext& context_;
  std::vector<std::unique_ptr<TcpSource>> sources_;
  Mutex lock_;
  // Accepted, and waiting for their sockets. The session that accepted them owns them.
  std::map<std::uint64_t, std::weak_ptr<TcpLane>> awaited_ FERRY_GUARDED_BY(lock_);
};

TcpProvider::~TcpProvider() {
  auto cause = fail(Code::kCancelled, "the device was closed").value();
  for (auto& source : sources_)
    for (const auto& lane : source->loop().with_token([&] { return source->lanes(); }))
      lane->close(cause);
}

std::shared_ptr<TcpLane> TcpProvider::make_lane(std::shared_ptr<PeerSession> peer,
                                                std::uint32_t lane, Loop& loop) {
  for (auto& source : sources_)
    if (&source->loop() == &loop)
      return std::make_shared<TcpLane>(*source, context_, std::move(peer), lane);
  die(__FILE__, __LINE__, "a lane is made on a loop of its device");
}

Result<std::shared_ptr<Lane>> TcpProvider::connect(std::shared_ptr<PeerSession> peer,
                                                   std::uint32_t lane, std::span<const std::byte>,
                                                   Loop& loop, const CallAccept& call,
                                                   Deadline deadline) {
  // A token is good for one connection.
  auto take_token = [&](bootstrap::Hello& hello) -> Status {
    auto answer = FERRY_TRY(call({}));
    bootstrap::Decoder decoder(answer);
    hello.session = decoder.u64();
    return decoder.finish("the peer's answer to a tcp lane");
  };
  auto endpoint = FERRY_TRY(bootstrap::Endpoint::parse(peer->identity().endpoint));
  bootstrap::Hello mine;
  mine.purpose = bootstrap::Purpose::kLane;
  mine.device = context_.id.bytes;
  mine.lane = lane;
  FERRY_TRY(take_token(mine));
  auto [socket, joined] =
      FERRY_TRY(bootstrap::dial(endpoint, *context_.secret, mine, deadline, take_token));
  if (joined.peer.device != peer->identity().device.bytes)
    return fail(Code::kUnauthenticated, "another device than {} answered at {}; connect again",
                peer->identity().device.to_string(), peer->identity().endpoint);
  FERRY_TRY(prepare_socket(socket.get(), context_.options->give_up));
  auto made = make_lane(std::move(peer), lane, loop);
  FERRY_TRY(made->start(std::move(socket), joined.rest));
  return made;
}

Result<Provider::Accepted> TcpProvider::accept(std::shared_ptr<PeerSession> peer,
                                               std::uint32_t lane, std::span<const std::byte>,
                                               Loop& loop) {
  std::uint64_t token = 0;
  FERRY_TRY(bootstrap::random_bytes(std::as_writable_bytes(std::span(&token, 1))));
  auto made = make_lane(std::move(peer), lane, loop);
  Accepted accepted;
  bootstrap::Encoder(accepted.answer).u64(token);
  LockGuard<Mutex> guard(lock_);
  std::erase_if(awaited_, [](const auto& entry) { return entry.second.expired(); });
  awaited_.emplace(token, made);
  accepted.lane = std::move(made);
  return accepted;
}

Status TcpProvider::adopt(Fd socket, std::uint64_t token, std::span<const std::byte> rest) {
  std::shared_ptr<TcpLane> lane;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = awaited_.find(token);
    if (found != awaited_.end()) {
      lane = found->second.lock();
      awaited_.erase(found);
    }
  }
  if (lane == nullptr)
    return fail(Code::kNotFound, "a peer joined a lane that nobody waits for; connect again");
  FERRY_TRY(prepare_socket(socket.get(), context_.options->give_up));
  return lane->start(std::move(socket), rest);
}

void TcpProvider::revoke(const GrantTable::Grant&, std::function<void()> quiet) {
  auto waiting = std::make_shared<std::atomic<std::size_t>>(sources_.size());
  auto all_quiet = std::make_shared<std::function<void()>>(std::move(quiet));
  for (auto& source : sources_)
    source->when_quiet([waiting, all_quiet] {
      if (waiting->fetch_sub(1) == 1) (*all_quiet)();
    });
}

void TcpProvider::forget(PeerSession& peer) {
  LockGuard<Mutex> guard(lock_);
  std::erase_if(awaited_, [&](const auto& entry) {
    auto lane = entry.second.lock();
    return lane == nullptr || &lane->peer() == &peer;
  });
}

}  // namespace

Result<std::unique_ptr<Provider>> open_tcp_provider(ProviderContext& context) {
  return std::make_unique<TcpProvider>(context);
}

}  // namespace ferry::fabric::tcp
