#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/log_limit.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/link_internal.h"

namespace ferry::fabric::shm {

// For tests: while it is true, no service of this process takes newcomers.
inline std::atomic<bool> hold_newcomers{false};

// The provider's own thread, off the data path: greets newcomers on the local socket, watches links
// for news and for their end, and sees revocations through. Thread-safe.
//
// What it calls may drop the last share in the device and so close it on the service thread itself;
// the thread therefore holds a share in the service.
class Service : public std::enable_shared_from_this<Service> {
 public:
  // A newcomer's first packet, with what came beside it.
  using Greet = std::function<void(Fd socket, const HelloPacket& hello, std::vector<Fd> fds)>;

  static std::shared_ptr<Service> start(Fd listener, Fd waker, Greet greet);
  // Nothing is called any more once it has returned. Once.
  void close();

  // Makes a link of a socket whose hellos are exchanged, and watches it.
  std::shared_ptr<Link> add_link(Fd socket, const std::shared_ptr<Peer>& peer);

  // Calls `quiet` once nobody can touch the memory of a grant that was removed from the table.
  // Memory that peers map: asks those that may use the grant (all, or one session) to say when they
  // no longer do, and waits until all have, or are gone. Memory of the program's own: no peer
  // stores to it, only threads of this process, and a peer that reads it finds out that it came too
  // late. For both it waits for threads of this process that serve a peer right now.
  void revoke(const GrantTable::Grant& grant, std::function<void()> quiet);

 private:
  Service(Fd listener, Fd waker, Greet greet);
  // A process of this user's that has connected and not said hello yet.
  struct Greeting {
    Fd socket;
    std::int64_t since = 0;
  };
  // Ours to be told about.
  struct Revocation {
    std::uint64_t number = 0;
    std::set<std::uint32_t> sessions;  // still to answer
    InFlight::Running running;
    std::function<void()> quiet;
  };
  // The peer's to be answered, by link and key of the revoked grant.
  struct Answer {
    std::shared_ptr<Link> link;
    std::uint64_t number = 0;
    InFlight::Running running;
  };
  using Answers = std::map<std::pair<const Link*, std::uint64_t>, Answer>;

  void run();
  Nanos longest_sleep();
  bool takes_newcomers() const;
  void accept_newcomers();
  void accept(Fd socket);
  void look_at_greetings();
  void look_at_links();
  void take_revocations(const std::shared_ptr<Link>& link);
  void note_question(const std::shared_ptr<Link>& link, const RevokePacket& question);
  void answer_peers();
  void end_revocations();
  void wake() const;

  const Fd listener_;
  const std::shared_ptr<const Fd> waker_;
  const Greet greet_;
  Mutex lock_;
  bool stop_ FERRY_GUARDED_BY(lock_) = false;
  std::vector<std::shared_ptr<Link>> links_ FERRY_GUARDED_BY(lock_);
  std::vector<Revocation> revocations_ FERRY_GUARDED_BY(lock_);
  std::uint64_t last_number_ FERRY_GUARDED_BY(lock_) = 0;
  // The service thread's own.
  std::vector<Greeting> greetings_;  // oldest first
  LogLimit refused_{"refused connections to the local socket"};
  Answers answers_;
  bool unsent_ = false;
  bool dropped_ = false;  // some peer's dropped blocks are still in use
  std::thread thread_;
};

}  // namespace ferry::fabric::shm
