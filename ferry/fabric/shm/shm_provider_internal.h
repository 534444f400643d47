#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/shm/lane_internal.h"
#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/service_internal.h"
#include "ferry/fabric/shm/source_internal.h"
#include "ferry/fabric/shm/team_internal.h"
#include "ferry/fabric/shm/wire_internal.h"

namespace ferry::fabric::shm {

class ShmProvider final : public Provider {
 public:
  static Result<std::unique_ptr<Provider>> open(ProviderContext& context);
  ~ShmProvider() override;

  std::string_view name() const override { return "shm"; }
  const Capabilities& capabilities() const override { return shared_->capabilities; }
  std::vector<std::byte> offer() const override { return offer_.encode(); }
  Status usable(const PeerIdentity& peer, std::span<const std::byte> peer_offer) const override;
  Result<std::shared_ptr<Lane>> connect(std::shared_ptr<PeerSession> peer, std::uint32_t lane,
                                        std::span<const std::byte> peer_offer, Loop& loop,
                                        const CallAccept& call, Deadline deadline) override;
  Result<Accepted> accept(std::shared_ptr<PeerSession> peer, std::uint32_t lane,
                          std::span<const std::byte> request, Loop& loop) override;
  void revoke(const GrantTable::Grant& grant, std::function<void()> quiet) override;
  void forget(PeerSession& peer) override;
  Status attach(const memory::Block& block) override;
  void detach(const memory::Block& block) override;

 private:
  // A lane that accept() has made, until the connecting end says hello.
  struct Expected {
    std::weak_ptr<ShmLane> lane;
    std::int32_t pid = 0;
  };
  struct OwnBlock {
    std::uint64_t length = 0;
    Fd read_write;
    Fd read_only;
  };

  explicit ShmProvider(ProviderContext& context) : context_(context) {}
  Status make_segments();
  Status start();
  ShmSource& source_of(const Loop& loop);
  std::shared_ptr<Peer> peer_of(const std::shared_ptr<PeerSession>& session);
  HelloPacket hello_of(const ShmLane& lane, const ShmSource& source) const;
  // Table, bells, doorbells and eventfds, as a hello carries them.
  std::vector<int> own_descriptors() const;
  Result<std::shared_ptr<Lane>> join(std::shared_ptr<ShmLane> lane, const ShmSource& source,
                                     const Offer& offer, const JoinToken& token, std::int32_t pid,
                                     Deadline deadline);
  // The peer's answer to a hello, and the socket that it came by.
  struct Greeted {
    Fd socket;
    Received answer;
  };
  Result<Greeted> greet_peer(const Offer& offer, const HelloPacket& hello, std::span<const int> fds,
                             std::int32_t pid, Deadline deadline);
  void greet(Fd socket, const HelloPacket& hello, std::vector<Fd> fds);
  Status welcome(Fd& socket, const HelloPacket& hello, std::vector<Fd> fds);
  void introduce_blocks(const std::shared_ptr<Peer>& peer, Fd socket);

  ProviderContext& context_;
  LogLimit refused_{"refused shared-memory lanes"};
  Offer offer_;
  Fd table_fd_;  // read-only
  Fd bell_fd_;
  Fd doorbell_fd_;
  std::shared_ptr<const Mapping> bells_;  // shared with the loops
  Mapping doorbells_;
  std::unique_ptr<Team> team_;
  std::shared_ptr<LaneShared> shared_;
  std::vector<std::unique_ptr<ShmSource>> sources_;

  Mutex lock_;
  std::map<std::uint32_t, std::shared_ptr<Peer>> peers_ FERRY_GUARDED_BY(lock_);
  std::map<JoinToken, Expected> expected_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint32_t, OwnBlock> blocks_ FERRY_GUARDED_BY(lock_);
  std::shared_ptr<Service> service_;  // shared with its thread
};

}  // namespace ferry::fabric::shm
