#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ferry/base/spin.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// The peer of a lane, for what goes over the control connection: its name, its end of the lane and
// its session, which the lane holds until it is closed. Thread-safe.
class PeerLink {
 public:
  explicit PeerLink(std::shared_ptr<PeerSession> session)
      : name_(session->identity().endpoint),
        session_number_(session->number()),
        session_(std::move(session)) {}

  const std::string& name() const { return name_; }
  std::uint32_t session_number() const { return session_number_; }

  // The peer's end has this queue pair number.
  void set_qpn(std::uint32_t qpn) {
    LockGuard<SpinLock> guard(lock_);
    qpn_ = qpn;
  }
  // Sends a notice about a grant to that end. Nothing once the session is dropped.
  void tell(Notice notice) {
    std::shared_ptr<PeerSession> session;
    {
      LockGuard<SpinLock> guard(lock_);
      session = session_;
      notice.qpn = qpn_;
    }
    if (session != nullptr) session->tell("verbs", encode(notice));
  }
  // Nothing once it is dropped.
  std::shared_ptr<PeerSession> session() {
    LockGuard<SpinLock> guard(lock_);
    return session_;
  }
  void drop_session() {
    std::shared_ptr<PeerSession> session;  // ends, if this was the last share, without the lock
    LockGuard<SpinLock> guard(lock_);
    session.swap(session_);
  }

 private:
  const std::string name_;
  const std::uint32_t session_number_;
  SpinLock lock_;
  std::shared_ptr<PeerSession> session_ FERRY_GUARDED_BY(lock_);
  std::uint32_t qpn_ FERRY_GUARDED_BY(lock_) = 0;
};

}  // namespace ferry::fabric::verbs
