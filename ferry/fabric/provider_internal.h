#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/transfer.h"
#include "ferry/fabric/types.h"
#include "ferry/memory/block.h"
#include "ferry/memory/pool.h"
#include "ferry/memory/registrar.h"

// How a transport plugs in. A provider's folder shows one header with one function:
//   Result<std::unique_ptr<Provider>> open_tcp_provider(ProviderContext&);
// which fails with the reason why this host cannot use it and what to do about it.

namespace ferry::fabric {

class Lane;

// What the device lends to its providers; outlives them. Everything here is thread-safe.
struct ProviderContext {
  const Options* options;
  DeviceId id;
  memory::Pool* pool;
  GrantTable* grants;
  OperationPool* operations;
  std::vector<std::unique_ptr<Loop>>* loops;
  const bootstrap::Secret* secret;
  // The block (arena or registered memory) that holds [at, at + length), if any. A few loads; no
  // lock on the data path.
  std::function<const memory::Block*(const std::byte* at, std::size_t length)> find_block;
  // The block with this id, for turning a Grant into memory.
  std::function<const memory::Block*(std::uint32_t id)> block_of;
};

// Who and where the peer is, as it said of itself after it was authenticated.
struct PeerIdentity {
  DeviceId device;
  std::string endpoint;         // where its device listens
  std::string host;             // boot id of its kernel: equal means the same machine
  std::uint64_t net_space = 0;  // inode of its network namespace
  std::uint64_t pid_space = 0;
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
};

// One authenticated peer, as a provider sees it. Lives until all its lanes are closed.
class PeerSession {
 public:
  virtual ~PeerSession() = default;
  virtual const PeerIdentity& identity() const = 0;
  // The number under which this device knows the session: what Grant::peer is compared with.
  virtual std::uint32_t number() const = 0;
  // The number under which the peer knows this session.
  virtual std::uint32_t number_at_peer() const = 0;
  virtual std::span<const std::byte, 32> session_key() const = 0;
  // Asks the peer's provider of the same name (its serve()) and waits for the answer. Blocking; not
  // from a loop, not from within accept() or serve().
  virtual Result<std::vector<std::byte>> call(std::string_view provider,
                                              std::span<const std::byte> request,
                                              Deadline deadline) = 0;
  // A one-way notice to the peer's provider (its serve(), answer dropped). Never blocks. Any
  // thread.
  virtual void tell(std::string_view provider, std::span<const std::byte> notice) = 0;
  // The provider saw that the peer is gone or broke the protocol: ends the session, which fails
  // every lane. Any thread; returns at once.
  virtual void peer_lost(Error cause) = 0;
  // The lane is broken (a failed operation took it down) but the peer lives: the device will
  // connect it anew and hand the new lane to the same channel. Any thread; returns at once.
  virtual void lane_broken(Lane& lane, Error cause) = 0;
  // The silence after which this side gave the peer up; 0: it did not. Known before lanes close.
  virtual Nanos given_up_after() const { return Nanos(0); }
};

// One lane to one peer; both ends have one. post() is thread-safe.
class Lane {
 public:
  explicit Lane(Loop& loop) : loop_(loop) {}
  virtual ~Lane() = default;

  // Starts one operation. Ends it at once (Transfer::done / failed, then the request's callback is
  // called by the channel, not here) or makes an Operation and returns it pending. Never blocks,
  // except that shm copies in the caller. A lane that is not up fails with kUnavailable.
  virtual Transfer post(Request& request) = 0;
  // For short writes, before post(): true if the bytes, and the flag if there is one, are where
  // they belong. False says nothing and has changed nothing that post() does not change again.
  virtual bool write_now(std::span<const std::byte> local, const RemoteAt& remote,
                         const RemoteAt* flag, std::uint64_t value, bool notify) {
    (void)local, (void)remote, (void)flag, (void)value, (void)notify;
    return false;
  }
  // Whether a look at a flag should give way to making progress: a hint, a load or two.
  virtual bool has_work() const { return true; }
  // Takes the oldest message that has arrived: copies it to `into` and returns its size; nothing if
  // there is none. kResourceExhausted if `into` is too small (the message stays).
  virtual Result<std::size_t> take_message(std::span<std::byte> into) = 0;
  virtual bool has_message() const = 0;
  // Every pending operation ends with `cause` (those that cannot be called back only after their
  // buffers are safe); later posts fail with it. No thread holds the token when this is called.
  // After it has returned, no callback of this lane is running or will run. Idempotent.
  virtual void close(const Error& cause) = 0;
  // The same for a lane that the peer has given up: nothing more of what it sent there takes
  // effect, not even what has arrived. What the peer sends on the lane's successor comes later.
  virtual void abandon(const Error& cause) { close(cause); }
  // A peer's region as memory of this process; kUnimplemented where capabilities say so.
  // kDeadlineExceeded if the peer does not hand it over in time.
  virtual Result<std::span<std::byte>> map(const RemoteRegion& remote, Deadline deadline) {
    (void)remote, (void)deadline;
    return fail(Code::kUnimplemented, "this path cannot map a peer's memory; use shared memory");
  }
  // After a store to memory that map() gave: wakes whoever sleeps at the peer until a flag comes.
  virtual void wake_peer() const {}
  virtual const Capabilities& capabilities() const = 0;
  virtual bool up() const = 0;
  Loop& loop() const { return loop_; }

 private:
  Loop& loop_;
};

class Provider : public memory::Registrar {
 public:
  // What accept() makes: this end of the lane, and what connect() at the other end gets to read.
  struct Accepted {
    std::shared_ptr<Lane> lane;
    std::vector<std::byte> answer;
  };

  virtual std::string_view name() const = 0;
  // One line for `ferry doctor`: what it uses (device, port, engine).
  virtual std::string describe() const { return {}; }
  virtual const Capabilities& capabilities() const = 0;
  // The NUMA node of the NIC that it uses; -1: there is none, or it is not known.
  virtual int numa_node() const { return -1; }
  // How peers reach this provider; sent to authenticated peers only.
  virtual std::vector<std::byte> offer() const = 0;
  // Whether a lane to this peer can work: OK, or the reason why not, for `auto` and `doctor`.
  virtual Status usable(const PeerIdentity& peer, std::span<const std::byte> peer_offer) const = 0;

  // The connecting end. Blocking, on the caller's thread. `call` runs accept() at the peer for this
  // lane and returns its answer. When connect() returns, the lane is up; the device then tells the
  // peer, whose lane is handed out after that.
  using CallAccept = std::function<Result<std::vector<std::byte>>(std::span<const std::byte>)>;
  virtual Result<std::shared_ptr<Lane>> connect(std::shared_ptr<PeerSession> peer,
                                                std::uint32_t lane,
                                                std::span<const std::byte> peer_offer, Loop& loop,
                                                const CallAccept& call, Deadline deadline) = 0;
  // The accepting end. On the control thread: must not block.
  virtual Result<Accepted> accept(std::shared_ptr<PeerSession> peer, std::uint32_t lane,
                                  std::span<const std::byte> request, Loop& loop) = 0;
  // Answers PeerSession::call() and tell() of the peer's provider. On the control thread: must not
  // block.
  virtual Result<std::vector<std::byte>> serve(PeerSession& peer,
                                               std::span<const std::byte> request) {
    (void)peer, (void)request;
    return fail(Code::kUnimplemented, "provider {} answers no calls", name());
  }
  // A socket whose handshake named this provider's lane (tcp): `token` is what accept() put into
  // its answer. On the control thread: must not block.
  virtual Status adopt(Fd socket, std::uint64_t token, std::span<const std::byte> rest) {
    (void)socket, (void)token, (void)rest;
    return fail(Code::kUnimplemented, "provider {} takes no sockets", name());
  }
  // The grant was removed from the table: make sure that no peer's access can still be running, or
  // call `quiet` later, when that is so, or when the peers that may still touch the memory are
  // dead. `quiet` may be called at once and on any thread. Never blocks for long.
  virtual void revoke(const GrantTable::Grant& grant, std::function<void()> quiet) = 0;
  // A provider that registers memory with hardware says so, and fills in what it registered: the
  // blocks, which the device has counted, and what only the provider sees.
  virtual void count_registrations(RegistrationStats& stats) const { (void)stats; }
  // The peer is gone: forget it. All its lanes are closed.
  virtual void forget(PeerSession& peer) { (void)peer; }
};

// The provider of this name, or null.
inline Provider* find_provider(const std::vector<std::unique_ptr<Provider>>& providers,
                               std::string_view name) {
  for (const auto& provider : providers)
    if (provider->name() == name) return provider.get();
  return nullptr;
}

}  // namespace ferry::fabric
