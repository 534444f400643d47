#include "ferry/fabric/fake/provider.h"

#include <utility>

#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/fake/lane_internal.h"
#include "ferry/fabric/fake/node_internal.h"
#include "ferry/fabric/fake/script_internal.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric::fake {

namespace {

class FakeProvider final : public Provider {
 public:
  explicit FakeProvider(ProviderContext& context)
      : context_(context),
        node_(std::make_shared<Node>(context.id, context.grants, context.loops)) {
    Registry::instance().add(node_);
  }
  ~FakeProvider() override {
    Registry::instance().remove(context_.id);
    node_->close();
  }

  std::string_view name() const override { return "fake"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  int numa_node() const override { return Dice::instance().path().numa_node; }
  std::vector<std::byte> offer() const override { return {}; }

  Status usable(const PeerIdentity& peer, std::span<const std::byte>) const override {
    FERRY_TRY(node_of(peer));
    return {};
  }

  Result<std::shared_ptr<Lane>> connect(std::shared_ptr<PeerSession> peer, std::uint32_t,
                                        std::span<const std::byte>, Loop& loop,
                                        const CallAccept& call, Deadline) override {
    auto node = FERRY_TRY(node_of(peer->identity()));
    auto answer = FERRY_TRY(call({}));
    bootstrap::Decoder decoder(answer);
    auto token = decoder.u64();
    FERRY_TRY(decoder.finish("the fake provider's answer"));
    auto link = Registry::instance().take_link(token);
    if (link == nullptr) {
      return fail(Code::kUnavailable, "{} withdrew its end of the link; connect again",
                  peer->identity().endpoint);
    }
    return make_lane(std::move(peer), std::move(node), std::move(link), loop, 0);
  }

  Result<Accepted> accept(std::shared_ptr<PeerSession> peer, std::uint32_t,
                          std::span<const std::byte>, Loop& loop) override {
    auto node = FERRY_TRY(node_of(peer->identity()));
    auto link = std::make_shared<Link>();
    Accepted accepted;
    bootstrap::Encoder(accepted.answer).u64(Registry::instance().offer_link(link));
    accepted.lane = make_lane(std::move(peer), std::move(node), std::move(link), loop, 1);
    return accepted;
  }

  void revoke(const GrantTable::Grant& grant, std::function<void()> quiet) override {
    node_->revoke(grant.key, std::move(quiet));
  }

  Status attach(const memory::Block& block) override {
    if (!Dice::instance().next_attachment_fails()) return {};
    return fail(Code::kResourceExhausted, "the script refused to register {} bytes",
                block.bytes.size());
  }
  void detach(const memory::Block&) override {}

 private:
  static Result<std::shared_ptr<Node>> node_of(const PeerIdentity& peer) {
    auto node = Registry::instance().find(peer.device);
    if (node != nullptr) return node;
    return fail(Code::kUnavailable,
                "the fake provider joins devices of one process, and {} (process {}) has no fake "
                "device here; use shm or tcp",
                peer.endpoint, peer.pid);
  }

  std::shared_ptr<Lane> make_lane(std::shared_ptr<PeerSession> peer, std::shared_ptr<Node> node,
                                  std::shared_ptr<Link> link, Loop& loop, int end) {
    return std::make_shared<FakeLane>(loop, *context_.operations, std::move(peer), std::move(node),
                                      std::move(link), end);
  }

  ProviderContext& context_;
  const Capabilities capabilities_ = FakeLane::what_it_can();
  const std::shared_ptr<Node> node_;
};

}  // namespace

Result<std::unique_ptr<Provider>> open_fake_provider(ProviderContext& context) {
  return std::make_unique<FakeProvider>(context);
}

}  // namespace ferry::fabric::fake
