#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>

#include "ferry/base/clock.h"

namespace ferry::fabric {

// The broken lanes that wait to be connected anew, by session. Sessions take turns, with one try
// for one lane each, so that a peer that does not answer costs the others one try at a
// time. The first try of a session is short and each one that fails doubles the time of the next.
// The caller brings the time. Not thread-safe.
template <class Session>
class ReconnectQueue {
 public:
  struct Limits {
    Nanos first_try;
    Nanos longest_try;
    Nanos pause;  // after a try that failed
    Nanos total;  // of the tries of one session that failed, after which its peer is given up
  };
  struct Try {
    std::shared_ptr<Session> session;
    std::uint32_t lane;
    Nanos limit;
  };

  explicit ReconnectQueue(const Limits& limits) : limits_(limits) {}

  // A lane that waits already is not added again.
  void add(const std::shared_ptr<Session>& session, std::uint32_t lane) {
    auto found = find(session);
    if (found == peers_.end())
      found = peers_.insert(peers_.end(), Peer{session, {}, limits_.first_try});
    auto& lanes = found->lanes;
    if (std::find(lanes.begin(), lanes.end(), lane) == lanes.end()) lanes.push_back(lane);
  }

  // The lane to try now. A session whose peer is silent waits until the peer speaks. Sessions that
  // have ended are forgotten. A try is ended by reconnected(), failed() or drop() before the next
  // one.
  std::optional<Try> next(std::int64_t now) {
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      auto session = peer->session.lock();
      if (session == nullptr || !session->alive()) {
        peer = peers_.erase(peer);
        continue;
      }
      if (peer->lanes.empty() || peer->not_before > now || session->silent_for() != Nanos(0)) {
        ++peer;
        continue;
      }
      Try attempt{std::move(session), peer->lanes.front(), peer->next_try};
      peer->lanes.pop_front();
      peers_.splice(peers_.end(), peers_, peer);
      return attempt;
    }
    return std::nullopt;
  }

  void reconnected(const Try& attempt) {
    auto found = find(attempt.session);
    if (found != peers_.end() && found->lanes.empty()) peers_.erase(found);
  }

  // The try did not end in time: the lane waits for its next try. False: the total is spent.
  bool failed(const Try& attempt, std::int64_t now, Nanos took) {
    auto found = find(attempt.session);
    if (found == peers_.end()) return true;
    found->spent += std::max(took, limits_.pause);
    if (found->spent >= limits_.total) return false;
    found->not_before = now + limits_.pause.count();
    found->next_try = std::min(found->next_try * 2, limits_.longest_try);
    add(attempt.session, attempt.lane);
    return true;
  }

  void drop(const Try& attempt) {
    auto found = find(attempt.session);
    if (found != peers_.end()) peers_.erase(found);
  }

  bool empty() const { return peers_.empty(); }
  std::size_t lanes() const {
    std::size_t count = 0;
    for (const auto& peer : peers_) count += peer.lanes.size();
    return count;
  }

 private:
  struct Peer {
    std::weak_ptr<Session> session;
    std::deque<std::uint32_t> lanes;
    Nanos next_try;
    Nanos spent{0};
    std::int64_t not_before = 0;
  };
  typename std::list<Peer>::iterator find(const std::shared_ptr<Session>& session) {
    return std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return !peer.session.owner_before(session) && !session.owner_before(peer.session);
    });
  }

  const Limits limits_;
  std::list<Peer> peers_;
};

}  // namespace ferry::fabric
