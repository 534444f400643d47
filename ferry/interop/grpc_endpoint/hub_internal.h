#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/link_internal.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"

namespace ferry::interop {

class FerryEndpoint;

// A socket address, of any family.
struct SocketAddress {
  std::vector<std::byte> bytes;

  static Result<SocketAddress> of_peer(int socket);
  friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
};

// What a client's call to a server with the plug-in brings.
struct Dialled {
  Fd wire;  // the connection that the call was made on
  std::shared_ptr<Link> link;
};

// Names one call; the server makes it up, and the client says it on the channel that it opens.
using CallToken = std::array<std::byte, 16>;
// Said by a client on a channel that is there to measure the path. No server makes it up: a token
// is random.
inline constexpr CallToken kMeasureToken{};

// What the plug-in has once per process: a device and its mail room, the descriptor by which
// gRPC's threads are woken, and the threads for what blocks. Opened when a connection first needs
// it, and never closed: threads of the program may be in it until the process ends.
//
// Thread-safe. attach(), detach() and what is posted run on threads of gRPC's.
class Hub {
 public:
  static Hub& get();

  // Opens the device. `reached_at` is the local address at which a peer has reached this process.
  // Fails again as it failed first.
  Status open(const std::string& reached_at);
  // After fork(): the child has none of the threads.
  void disown();

  // While somebody is attached, gRPC's threads are woken by the device. In an ExecCtx. Fails only
  // for the first.
  Status attach();
  void detach();
  // What is woken: to be added to pollsets. While attached.
  void watch(grpc_pollset* pollset);
  void watch(grpc_pollset_set* set, bool on);

  void add(const std::shared_ptr<FerryEndpoint>& endpoint);
  void remove(const FerryEndpoint* endpoint);

  // On a thread of gRPC's, soon, without locks of ours. If nobody is attached any more, at once on
  // this thread: then it finds that what it was to go on with is over.
  void post(std::function<void()> task);
  // There is news that no peer will ring for: if somebody sleeps, it looks once more.
  void nudge();
  // Whether connections wait for receive memory, and it is some other's turn.
  bool others_may_go_on() { return room_->crowded() && news(); }
  // On a thread of its own, which may block.
  void aside(std::function<void()> task);
  // An endpoint has lost its connection and waits for what is still on its way.
  void ring_soon();

  // The client's side; blocks. `answered` is for the answer; the link has a limit of its own.
  // kUnavailable: no plug-in is there, or not for us.
  Result<Dialled> dial(const SocketAddress& server, const LinkThresholds& set, Deadline answered);
  // The server's side of a call: what the client is told, and who is told when its channel is
  // there. Not after forget().
  using Arrived = std::function<void(std::shared_ptr<Link>)>;
  std::vector<std::byte> expect(const CallToken& token, const LinkThresholds& set, Arrived arrived);
  void forget(const CallToken& token);

  // Memory for a slice that peers can read in place, while there are any; nothing if it is small,
  // or too much is in use.
  std::optional<grpc_slice> shared_slice(std::size_t bytes);
  // One was not made there; says so once.
  void note_unshared(const Error& why);
  // Bytes of this process's memory that received messages lie in.
  std::uint64_t received_in_use() const { return room_->bytes_in_use(); }

  // A descriptor was added to an epoll: if it is ours, the epoll is gRPC's.
  void note_epoll(int epoll, int fd) {
    if (fd >= 0 && fd == our_descriptor_.load(std::memory_order_relaxed)) grpc_epoll_.store(epoll);
  }
  // For every thread that is about to wait in epoll_wait(), which `wait` is. If it is gRPC's: looks
  // for a while, then says that it sleeps, so that peers ring. What comes by the device it
  // completes itself: gRPC goes on with it when this returns.
  using SystemWait = int (*)(int epoll, epoll_event* events, int most, int timeout_ms);
  int wait_for_grpc(SystemWait wait, int epoll, epoll_event* events, int most, int timeout_ms);

  const bootstrap::Secret& secret() const { return *secret_; }
  Nanos scaled(Nanos span) const;
  // Closes it, on a thread where that may take its time.
  void bury(Link* link);
  // A link that is new; until it is buried.
  void know(Link* link);
  PluginTraffic traffic();
  // A connection that gRPC keeps as it is, for the report.
  void note_plain(bool client, const std::string& peer, const std::string& why);
  // The report of every connection there was.
  void print_stats();

 private:
  // The device's descriptor as gRPC sees it. Lives until gRPC has told that it is shut down.
  struct Doorbell {
    Hub* hub = nullptr;
    grpc_fd* fd = nullptr;
    grpc_closure rung{};
  };

  Hub() = default;
  Status open_now(const std::string& reached_at) FERRY_REQUIRES(lock_);
  static void rung(void* doorbell, absl::Status status);
  void on_rung(Doorbell& bell);
  int wait_plain(SystemWait wait, int epoll, epoll_event* events, int most, int timeout_ms,
                 bool& ours);
  bool somebody_waits_plain() const;
  bool news();
  bool spin_for_news(const std::function<int()>& look, int& count);
  bool begin_sleep();
  int sleep(const std::function<int()>& wait);
  void end_sleep();
  bool take_bell(epoll_event* events, int& count);
  bool serve();
  bool pump();
  void run_tasks();
  void accept_links();
  void serve_link(fabric::Channel channel);
  Result<fabric::Channel> open_lane(const std::string& endpoint, std::uint32_t lane,
                                    const CallToken& token, Deadline deadline);
  // hub_tuning.cc
  void measure_once(const std::string& endpoint, const Link& link);
  void measure_with(fabric::Channel channel);
  void undertake();

  Mutex lock_;
  std::optional<Status> opened_ FERRY_GUARDED_BY(lock_);
  std::optional<bootstrap::Secret> secret_;
  std::optional<fabric::Device> device_;
  std::optional<mail::MailRoom> room_;
  bool accepting_ FERRY_GUARDED_BY(lock_) = false;
  struct Expected {
    LinkThresholds set;
    Arrived arrived;
  };
  std::map<CallToken, Expected> expected_ FERRY_GUARDED_BY(lock_);

  Mutex bell_lock_;
  Doorbell* bell_ FERRY_GUARDED_BY(bell_lock_) = nullptr;
  std::size_t attached_ FERRY_GUARDED_BY(bell_lock_) = 0;

  using Endpoints = std::vector<std::shared_ptr<FerryEndpoint>>;
  // Who says that gRPC's threads sleep: the closure, whenever it waits; or, once the hook in
  // epoll_wait() was seen to work, the thread that does.
  Mutex arm_lock_;
  std::atomic<bool> armed_{false};  // changed under arm_lock_
  std::atomic<bool> hooked_{false};
  std::atomic<bool> belled_{false};  // somebody is attached
  std::atomic<int> our_descriptor_{-1};
  std::atomic<int> grpc_epoll_{-1};
  // Threads that wait without having armed, by epoll: which one is gRPC's may be known later.
  std::array<std::atomic<int>, 4096> plain_waiters_{};
  std::atomic<unsigned> vain_{0};  // spins in a row that found nothing
  std::atomic<unsigned> skipped_{0};
  std::atomic<unsigned> served_{0};
  std::atomic<std::size_t> turn_{0};        // of the endpoints, who is looked at first
  std::atomic<std::uint64_t> unshared_{0};  // slices that were made in ordinary memory
  std::atomic<int> unmapped_{0};  // endpoints whose peers' memory is not mapped: they need progress

  SpinLock list_lock_;
  std::shared_ptr<const Endpoints> endpoints_ FERRY_GUARDED_BY(list_lock_) =
      std::make_shared<Endpoints>();
  std::vector<std::function<void()>> tasks_ FERRY_GUARDED_BY(list_lock_);

  Mutex tuning_lock_;
  std::set<std::string> measured_ FERRY_GUARDED_BY(tuning_lock_);  // providers and hosts
  std::atomic<bool> measuring_{false};                             // one path at a time

  Mutex dial_lock_;  // one at a time: sessions are made by who comes first
  std::map<std::string, std::uint32_t> lanes_ FERRY_GUARDED_BY(dial_lock_);

  Mutex grave_lock_;
  std::condition_variable_any grave_wake_;
  std::set<Link*> links_ FERRY_GUARDED_BY(grave_lock_);
  PluginTraffic past_ FERRY_GUARDED_BY(grave_lock_);  // of links that are closed
  std::vector<Link*> graves_ FERRY_GUARDED_BY(grave_lock_);
  std::int64_t ring_until_ FERRY_GUARDED_BY(grave_lock_) = 0;
  bool undertaker_ FERRY_GUARDED_BY(grave_lock_) = false;
  void report(std::string line) FERRY_REQUIRES(grave_lock_);
  std::vector<std::string> reports_ FERRY_GUARDED_BY(grave_lock_);
  std::uint64_t unreported_ FERRY_GUARDED_BY(grave_lock_) = 0;  // beyond what is kept
};

}  // namespace ferry::interop
