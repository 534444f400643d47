#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/shm/segment_internal.h"
#include "ferry/fabric/shm/shm_provider_internal.h"

// How a lane is made. The connecting end asks for a token over the control connection, makes the
// lane's segment, and takes both to the accepting end's local socket, where the kernel vouches for
// who is who.

namespace ferry::fabric::shm {

namespace {

constexpr Nanos kShortestPause = std::chrono::milliseconds(5);
constexpr Nanos kLongestPause = std::chrono::milliseconds(100);

Result<Fd> new_lane_segment(std::shared_ptr<const Mapping>& mapping) {
  auto fd = FERRY_TRY(sealed_memfd("ferry-lane", kLaneSegment));
  mapping = FERRY_TRY(map_segment(fd, kLaneSegment));
  auto* words = reinterpret_cast<LaneWords*>(mapping->data());
  words->magic = LaneWords::kMagic;
  words->version = LaneWords::kVersion;
  return fd;  // the rings of fresh zero pages are empty
}

Result<std::shared_ptr<const Mapping>> open_lane_segment(const Fd& fd) {
  FERRY_TRY(check_segment(fd.get(), kLaneSegment));
  auto mapping = FERRY_TRY(map_segment(fd, kLaneSegment));
  const auto* words = reinterpret_cast<const LaneWords*>(mapping->data());
  if (words->magic != LaneWords::kMagic || words->version != LaneWords::kVersion)
    return fail(Code::kInvalidArgument, "the peer's lane segment has an unknown layout");
  return mapping;
}

Result<JoinToken> token_of(std::span<const std::byte> answer) {
  JoinToken token{};
  if (answer.size() != token.size())
    return fail(Code::kInvalidArgument, "the peer answered with a token of {} bytes",
                answer.size());
  std::copy(answer.begin(), answer.end(), token.begin());
  return token;
}

}  // namespace

std::vector<int> ShmProvider::own_descriptors() const {
  std::vector<int> fds{table_fd_.get(), bell_fd_.get(), doorbell_fd_.get()};
  for (const auto& loop : *context_.loops) fds.push_back(loop->event_fd());
  return fds;
}

HelloPacket ShmProvider::hello_of(const ShmLane& lane, const ShmSource& source) const {
  HelloPacket hello;
  hello.loops = static_cast<std::uint32_t>(sources_.size());
  hello.loop = source.number();
  hello.index = lane.index();
  return hello;
}

Result<std::shared_ptr<Lane>> ShmProvider::connect(std::shared_ptr<PeerSession> peer, std::uint32_t,
                                                   std::span<const std::byte> peer_offer,
                                                   Loop& loop, const CallAccept& call,
                                                   Deadline deadline) {
  FERRY_TRY(usable(peer->identity(), peer_offer));
  auto offer = FERRY_TRY(Offer::decode(peer_offer));
  auto answer = FERRY_TRY(call({}));
  auto token = FERRY_TRY(token_of(answer));
  auto& source = source_of(loop);
  auto pid = peer->identity().pid;
  auto lane = std::make_shared<ShmLane>(shared_, peer_of(peer), source, 0);
  return join(std::move(lane), source, offer, token, pid, deadline);
}

// A peer that is busy may close the socket before it has looked at the hello. The token is then
// still good.
Result<ShmProvider::Greeted> ShmProvider::greet_peer(const Offer& offer, const HelloPacket& hello,
                                                     std::span<const int> fds, std::int32_t pid,
                                                     Deadline deadline) {
  for (Nanos pause = kShortestPause;; pause = std::min(2 * pause, kLongestPause)) {
    Greeted greeted;
    greeted.socket = FERRY_TRY(connect_local(offer.socket_name, deadline));
    FERRY_TRY(check_peer(greeted.socket.get(), offer_.uid, pid));
    auto sent = send_packet(greeted.socket.get(), encode(hello), fds);
    auto got = [&]() -> Result<Received> {
      if (sent && *sent) return await_packet(greeted.socket.get(), deadline);
      return fail(Code::kUnavailable, "the peer's local socket is full");
    }();
    if (got) {
      greeted.answer = *std::move(got);
      return greeted;
    }
    if (got.error().code() != Code::kUnavailable || deadline.left() <= pause)
      return tl::unexpected<Error>(got.error());
    std::this_thread::sleep_for(pause);
  }
}

Result<std::shared_ptr<Lane>> ShmProvider::join(std::shared_ptr<ShmLane> lane,
                                                const ShmSource& source, const Offer& offer,
                                                const JoinToken& token, std::int32_t pid,
                                                Deadline deadline) {
  std::shared_ptr<const Mapping> segment;
  auto segment_fd = FERRY_TRY(new_lane_segment(segment));
  auto hello = hello_of(*lane, source);
  hello.connecting = true;
  hello.token = token;
  auto fds = own_descriptors();
  fds.insert(fds.begin(), segment_fd.get());
  auto [socket, got] = FERRY_TRY(greet_peer(offer, hello, fds, pid, deadline));
  auto packet = FERRY_TRY(decode(got.bytes));
  if (const auto* refusal = std::get_if<RefusalPacket>(&packet))
    return fail(refusal->code, "the peer refused the shared-memory lane: {}", refusal->text);
  const auto* answer = std::get_if<HelloPacket>(&packet);
  if (answer == nullptr || answer->connecting)
    return fail(Code::kInvalidArgument, "the peer's local socket answered with no hello");
  FERRY_TRY(lane->peer()->meet(std::move(got.fds), answer->loops));
  FERRY_TRY(lane->start(std::move(segment), answer->loop, answer->index));
  introduce_blocks(lane->peer(), std::move(socket));
  return lane;
}

Result<Provider::Accepted> ShmProvider::accept(std::shared_ptr<PeerSession> peer, std::uint32_t,
                                               std::span<const std::byte>, Loop& loop) {
  JoinToken token{};
  FERRY_TRY(bootstrap::random_bytes(token));
  auto lane = std::make_shared<ShmLane>(shared_, peer_of(peer), source_of(loop), 1);
  LockGuard<Mutex> guard(lock_);
  std::erase_if(expected_, [](const auto& each) { return each.second.lane.expired(); });
  expected_[token] = Expected{lane, peer->identity().pid};
  return Accepted{lane, {token.begin(), token.end()}};
}

void ShmProvider::greet(Fd socket, const HelloPacket& hello, std::vector<Fd> fds) {
  auto welcomed = welcome(socket, hello, std::move(fds));
  if (welcomed) return;
  refused_.warn("a shared-memory lane is refused: {}", welcomed.error().to_string());
  if (!socket) return;
  RefusalPacket refusal{welcomed.error().code(), welcomed.error().message()};
  [[maybe_unused]] auto sent = send_packet(socket.get(), encode(refusal), {});
}

Status ShmProvider::welcome(Fd& socket, const HelloPacket& hello, std::vector<Fd> fds) {
  Expected expected;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = expected_.find(hello.token);
    if (found == expected_.end())
      return fail(Code::kPermissionDenied, "the token of the hello is not known, or was used");
    expected = found->second;
    expected_.erase(found);
  }
  FERRY_TRY(check_peer(socket.get(), offer_.uid, expected.pid));
  auto lane = expected.lane.lock();
  if (lane == nullptr) return fail(Code::kUnavailable, "the lane was given up meanwhile");
  auto segment = FERRY_TRY(open_lane_segment(fds.front()));
  fds.erase(fds.begin());
  FERRY_TRY(lane->peer()->meet(std::move(fds), hello.loops));
  FERRY_TRY(lane->start(std::move(segment), hello.loop, hello.index));
  auto answer = hello_of(*lane, source_of(lane->loop()));
  if (!FERRY_TRY(send_packet(socket.get(), encode(answer), own_descriptors())))
    return fail(Code::kUnavailable, "the newcomer's local socket is full");
  introduce_blocks(lane->peer(), std::move(socket));
  return {};
}

// Under the lock, so that a block attached at the same time is sent once: here or there.
void ShmProvider::introduce_blocks(const std::shared_ptr<Peer>& peer, Fd socket) {
  LockGuard<Mutex> guard(lock_);
  bool first = peer->first_link() == nullptr;
  auto link = service_->add_link(std::move(socket), peer);
  if (!first) return;
  for (const auto& [id, block] : blocks_) {
    int fds[] = {block.read_write.get(), block.read_only.get()};
    link->send(BlockPacket{id, block.length}, fds);
  }
}

}  // namespace ferry::fabric::shm
