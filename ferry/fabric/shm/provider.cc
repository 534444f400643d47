#include "ferry/fabric/shm/provider.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ferry/base/log.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/shm/shm_provider_internal.h"

namespace ferry::fabric::shm {

namespace {

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes{};
  FERRY_TRY(bootstrap::random_bytes(bytes));
  std::string name = "ferry-";
  for (auto byte : bytes) name += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return name;
}

// A segment that this process writes and nobody else can map for writing, whatever descriptor of it
// they hold.
Result<Fd> bell_segment(std::size_t length, Mapping& mapping) {
  Fd fd(::memfd_create("ferry-bells", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno(errno, "creating the segment of bells");
  if (::ftruncate(fd.get(), static_cast<off_t>(length)) != 0)
    return fail_errno(errno, "sizing the segment of bells");
  mapping = FERRY_TRY(Mapping::shared(fd.get(), length));
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return fail_errno(errno, "sealing the segment of bells (Linux 5.1 is needed)");
  return fd;
}

Capabilities make_capabilities() {
  Capabilities able;
  able.one_sided = true;
  able.maps_peer = true;
  able.atomics = true;
  able.max_message = kMaxMessage;
  return able;
}

}  // namespace

Result<std::unique_ptr<Provider>> open_shm_provider(ProviderContext& context) {
  return ShmProvider::open(context);
}

Result<std::unique_ptr<Provider>> ShmProvider::open(ProviderContext& context) {
  if (context.loops->size() > kMaxLoops)
    return fail(Code::kInvalidArgument, "{} completion queues; shared memory takes {} at most",
                context.loops->size(), kMaxLoops);
  std::unique_ptr<ShmProvider> provider(new ShmProvider(context));
  FERRY_TRY(provider->make_segments());
  FERRY_TRY(provider->start());
  return provider;
}

Status ShmProvider::make_segments() {
  auto loops = context_.loops->size();
  table_fd_ = FERRY_TRY(read_only(context_.grants->fd()));
  Mapping bells;
  bell_fd_ = FERRY_TRY(bell_segment(sizeof(Bell) * loops, bells));
  bells_ = std::make_shared<const Mapping>(std::move(bells));
  doorbell_fd_ = FERRY_TRY(sealed_memfd("ferry-doorbells", sizeof(Doorbell) * loops));
  doorbells_ = FERRY_TRY(Mapping::shared(doorbell_fd_.get(), sizeof(Doorbell) * loops));
  return {};
}

Status ShmProvider::start() {
  auto name = FERRY_TRY(random_name());
  offer_ = FERRY_TRY(Offer::of_this_process(name));
  auto listener = FERRY_TRY(listen_local(name));
  Fd waker(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!waker) return fail_errno(errno, "creating an eventfd (raise the open-files limit?)");
  if (context_.options->copy_threads > 0)
    team_ = std::make_unique<Team>(context_.options->copy_threads);
  shared_ = std::make_shared<LaneShared>(LaneShared{&context_, team_.get(), make_capabilities()});
  auto* bells = reinterpret_cast<Bell*>(bells_->data());
  auto* doorbells = reinterpret_cast<Doorbell*>(doorbells_.data());
  for (std::uint32_t i = 0; i < context_.loops->size(); ++i) {
    Loop& loop = *(*context_.loops)[i];
    sources_.push_back(std::make_unique<ShmSource>(loop, i, doorbells[i]));
    loop.use_bell(&bells[i], bells_);
    loop.add(sources_.back().get());
  }
  service_ = Service::start(std::move(listener), std::move(waker),
                            [this](Fd socket, const HelloPacket& hello, std::vector<Fd> fds) {
                              greet(std::move(socket), hello, std::move(fds));
                            });
  return {};
}

ShmProvider::~ShmProvider() {
  if (service_ != nullptr) service_->close();
  for (auto& source : sources_) {
    source->loop().remove(source.get());
    source->loop().use_bell(nullptr);
  }
}

Status ShmProvider::usable(const PeerIdentity& peer, std::span<const std::byte> peer_offer) const {
  auto offer = FERRY_TRY(Offer::decode(peer_offer));
  if (offer.boot_id != offer_.boot_id)
    return fail(Code::kUnavailable, "the peer runs on another machine");
  if (offer.net_space != offer_.net_space || offer.pid_space != offer_.pid_space)
    return fail(Code::kUnavailable, "the peer runs in another network or process namespace");
  if (offer.uid != offer_.uid)
    return fail(Code::kUnavailable, "the peer belongs to user {}, this process to user {}",
                offer.uid, offer_.uid);
  if (offer.pid != peer.pid)
    return fail(Code::kUnavailable, "the peer says that it is process {} and process {}", offer.pid,
                peer.pid);
  return {};
}

ShmSource& ShmProvider::source_of(const Loop& loop) {
  for (auto& source : sources_)
    if (&source->loop() == &loop) return *source;
  FERRY_ASSERT(false, "a lane is put on a loop of another device");
  __builtin_unreachable();
}

std::shared_ptr<Peer> ShmProvider::peer_of(const std::shared_ptr<PeerSession>& session) {
  LockGuard<Mutex> guard(lock_);
  auto& peer = peers_[session->number()];
  if (peer == nullptr) peer = std::make_shared<Peer>(session);
  return peer;
}

void ShmProvider::forget(PeerSession& peer) {
  std::shared_ptr<Peer> gone;  // outlives the lock: its end may take a while
  LockGuard<Mutex> guard(lock_);
  auto found = peers_.find(peer.number());
  if (found == peers_.end()) return;
  gone = std::move(found->second);
  gone->forget();
  peers_.erase(found);
}

void ShmProvider::revoke(const GrantTable::Grant& grant, std::function<void()> quiet) {
  service_->revoke(grant, std::move(quiet));
}

Status ShmProvider::attach(const memory::Block& block) {
  if (block.fd < 0) return {};
  OwnBlock own;
  own.length = block.bytes.size();
  own.read_write = Fd(::fcntl(block.fd, F_DUPFD_CLOEXEC, 0));
  if (!own.read_write)
    return fail_errno(errno, "duplicating the descriptor of a block (raise the open-files limit?)");
  own.read_only = FERRY_TRY(read_only(block.fd));
  int fds[] = {own.read_write.get(), own.read_only.get()};
  BlockPacket packet{block.id, own.length};
  LockGuard<Mutex> guard(lock_);
  blocks_.emplace(block.id, std::move(own));
  for (auto& [number, peer] : peers_)
    if (auto link = peer->first_link()) link->send(packet, fds);
  return {};
}

void ShmProvider::detach(const memory::Block& block) {
  LockGuard<Mutex> guard(lock_);
  if (blocks_.erase(block.id) == 0) return;
  for (auto& [number, peer] : peers_)
    if (auto link = peer->first_link()) link->send(DropPacket{block.id});
}

}  // namespace ferry::fabric::shm
