// Data path.
#pragma once

#include <cstdint>
#include <string>

#include "ferry/fabric/verbs/work_internal.h"

namespace ferry::fabric::verbs {

// What an operation towards the peer fails with that did not end in time, or was cancelled.
Error deadline_error(const std::string& peer_name, const std::string& adapter_name);
Error cancelled_error(const std::string& peer_name);

// The operations of one lane that are to end early, at one tick of the loop: those whose deadline
// is over and those that were cancelled. Made, used and dropped by the token's holder.
class Expiry {
 public:
  // A cancelled operation that has begun has `grace` to end by itself.
  Expiry(std::int64_t now, Nanos grace, const std::string& peer_name,
         const std::string& adapter_name)
      : now_(now), grace_(grace.count()), peer_name_(peer_name), adapter_name_(adapter_name) {}

  // Looks at one operation. True when it is to end and has not begun: it is among the failures now.
  bool expire(Operation& op);
  // Whether some operation that has begun must end now. It cannot be called back: the lane goes.
  bool lane_must_go() const { return lane_must_go_; }
  Failures& failures() { return failures_; }

 private:
  const std::int64_t now_;
  const std::int64_t grace_;
  const std::string& peer_name_;
  const std::string& adapter_name_;
  Failures failures_;
  bool lane_must_go_ = false;
};

}  // namespace ferry::fabric::verbs
