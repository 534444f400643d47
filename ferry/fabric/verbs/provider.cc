#include "ferry/fabric/verbs/provider.h"

#include <unordered_map>

#include "ferry/base/log.h"
#include "ferry/fabric/verbs/events_internal.h"
#include "ferry/fabric/verbs/queue_internal.h"

namespace ferry::fabric::verbs {

namespace {

Status fit(const Address& ours, const Address& theirs) {
  if (ours.ethernet != theirs.ethernet)
    return fail(Code::kFailedPrecondition, "one end is on {} and the other on {}",
                ours.ethernet ? "Ethernet" : "InfiniBand",
                theirs.ethernet ? "Ethernet" : "InfiniBand");
  if (ours.gid_type != theirs.gid_type)
    return fail(Code::kFailedPrecondition,
                "one end speaks {} and the other {}; choose GIDs of one type (verbs_gid)",
                name_of(ours.gid_type), name_of(theirs.gid_type));
  return {};
}

class VerbsProvider final : public Provider {
 public:
  VerbsProvider(ProviderContext& context, std::unique_ptr<Adapter> adapter)
      : shared_(context, std::move(adapter)),
        capabilities_{true, false, false, shared_.adapter->atomics, kMaxMessage} {}

  Status open_queues() {
    int index = 0;
    for (auto& loop : *shared_.context.loops)
      queues_.push_back(FERRY_TRY(Queue::open(shared_, *loop, index++)));
    auto fail = [this](std::optional<std::uint32_t> qpn, const Error& cause) {
      fail_lanes(qpn, cause);
    };
    events_ = FERRY_TRY(Events::open(shared_, *shared_.context.loops->front(), fail));
    return {};
  }

  std::string_view name() const override { return "verbs"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  int numa_node() const override { return shared_.adapter->numa_node; }
  std::vector<std::byte> offer() const override { return encode(shared_.adapter->address); }

  Status usable(const PeerIdentity&, std::span<const std::byte> peer_offer) const override {
    auto theirs = FERRY_TRY(decode_address(peer_offer));
    FERRY_TRY(events_->health());
    return fit(shared_.adapter->address, theirs);
  }

  Result<std::shared_ptr<Lane>> connect(std::shared_ptr<PeerSession> peer, std::uint32_t,
                                        std::span<const std::byte>, Loop& loop,
                                        const CallAccept& call, Deadline deadline) override {
    auto lane = FERRY_TRY(queue_of(loop).make_lane(std::move(peer)));
    auto met = [&]() -> Status {
      auto answer = FERRY_TRY(call(encode(lane->hello())));
      auto theirs = FERRY_TRY(decode_hello(answer));
      FERRY_TRY(fit(shared_.adapter->address, theirs.address));
      remember(lane);
      FERRY_TRY(lane->meet(theirs));
      return lane->greet(deadline);
    }();
    if (!met) {
      lane->close(met.error());
      return tl::unexpected(met.error());
    }
    lane->establish();
    return lane;
  }

  Result<Accepted> accept(std::shared_ptr<PeerSession> peer, std::uint32_t,
                          std::span<const std::byte> request, Loop& loop) override {
    auto theirs = FERRY_TRY(decode_hello(request));
    FERRY_TRY(fit(shared_.adapter->address, theirs.address));
    auto lane = FERRY_TRY(queue_of(loop).make_lane(std::move(peer)));
    remember(lane);
    if (auto met = lane->meet(theirs); !met) {
      lane->close(met.error());
      return tl::unexpected(met.error());
    }
    lane->establish();
    return Accepted{lane, encode(lane->hello())};
  }

  // Notices about grants. One for a lane that is gone, or of another session, says nothing to us.
  Result<std::vector<std::byte>> serve(PeerSession& peer,
                                       std::span<const std::byte> request) override {
    auto notice = FERRY_TRY(decode_notice(request));
    auto lane = find(notice.qpn);
    if (lane == nullptr || lane->session_number() != peer.number()) return {};
    switch (notice.kind) {
      case Notice::Kind::kResolve:
        shared_.exposures.resolve(lane, notice.region);
        break;
      case Notice::Kind::kResolved:
        lane->resolved(notice);
        break;
      case Notice::Kind::kForget:
        lane->forget(notice.region);
        break;
      case Notice::Kind::kForgotten:
        shared_.exposures.forgotten(*lane, notice.region.key);
        break;
    }
    return std::vector<std::byte>{};
  }

  void revoke(const GrantTable::Grant& grant, std::function<void()> quiet) override {
    shared_.exposures.revoke(grant, std::move(quiet));
  }

  Status attach(const memory::Block& block) override { return shared_.blocks.attach(block); }
  void detach(const memory::Block& block) override { shared_.blocks.detach(block); }
  void count_registrations(RegistrationStats& stats) const override {
    const auto cached = shared_.cache->stats();
    stats.hardware = true;
    stats.count = shared_.adapter->registrations.made;
    stats.ns = shared_.adapter->registrations.ns;
    stats.for_transfers = cached.misses;
    stats.for_transfers_ns = cached.registering_ns;
    stats.reused = cached.hits;
  }

 private:
  Queue& queue_of(Loop& loop) {
    for (auto& queue : queues_)
      if (&queue->loop() == &loop) return *queue;
    die(__FILE__, __LINE__, "a lane is put on a loop of its own device");
  }

  void remember(const std::shared_ptr<VerbsLane>& lane) {
    LockGuard<Mutex> guard(lock_);
    std::erase_if(lanes_, [](const auto& entry) { return entry.second.expired(); });
    lanes_[lane->qpn()] = lane;
  }

  std::shared_ptr<VerbsLane> find(std::uint32_t qpn) {
    LockGuard<Mutex> guard(lock_);
    auto found = lanes_.find(qpn);
    return found == lanes_.end() ? nullptr : found->second.lock();
  }

  void fail_lanes(std::optional<std::uint32_t> qpn, const Error& cause) {
    std::vector<std::shared_ptr<VerbsLane>> lanes;
    {
      LockGuard<Mutex> guard(lock_);
      for (auto& [number, lane] : lanes_)
        if (!qpn || *qpn == number)
          if (auto alive = lane.lock()) lanes.push_back(std::move(alive));
    }
    for (auto& lane : lanes) lane->fail_soon(cause);
  }

  Shared shared_;
  Capabilities capabilities_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::unique_ptr<Events> events_;
  Mutex lock_;
  std::unordered_map<std::uint32_t, std::weak_ptr<VerbsLane>> lanes_ FERRY_GUARDED_BY(lock_);
};

}  // namespace

Result<std::unique_ptr<Provider>> open_verbs_provider(ProviderContext& context) {
  auto adapter = FERRY_TRY(open_adapter(*context.options));
  auto provider = std::make_unique<VerbsProvider>(context, std::move(adapter));
  FERRY_TRY(provider->open_queues());
  return provider;
}

}  // namespace ferry::fabric::verbs
