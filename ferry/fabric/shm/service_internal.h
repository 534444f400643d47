#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/link_internal.h"

namespace ferry::fabric::shm {

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

  // Asks the peers that may use the grant (all, or one session) to say when they no longer do.
  // Calls `quiet` once all have, or are gone, and no thread of this process touches it either.
  void revoke(std::uint64_t key, std::uint32_t only_session, std::function<void()> quiet);

 private:
  Service(Fd listener, Fd waker, Greet greet);
  struct Greeting {
    Fd socket;
    Deadline deadline;
  };
  // Ours to be told about.
  struct Revocation {
    std::uint64_t number = 0;
    std::set<std::uint32_t> sessions;  // still to answer
    InFlight::Running running;
    std::function<void()> quiet;
  };
  // The peer's to be answered.
  struct Answer {
    std::shared_ptr<Link> link;
    RevokePacket what;
    InFlight::Running running;
  };

  void run();
  int timeout_ms();
  void accept_newcomers();
  void look_at_greetings();
  void look_at_links();
  void take_revocations(const std::shared_ptr<Link>& link);
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
  std::vector<Greeting> greetings_;
  std::vector<Answer> answers_;
  bool unsent_ = false;
  std::thread thread_;
};

}  // namespace ferry::fabric::shm
