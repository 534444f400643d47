#include "ferry/fabric/verbs/expiry_internal.h"

namespace ferry::fabric::verbs {

Error deadline_error(const std::string& peer_name, const std::string& adapter_name) {
  return Error(
      Code::kDeadlineExceeded,
      fmt::format("the operation towards {} over {} did not end in time", peer_name, adapter_name),
      0, __FILE__, __LINE__);
}

Error cancelled_error(const std::string& peer_name) {
  return Error(Code::kCancelled, fmt::format("the operation towards {} was cancelled", peer_name),
               0, __FILE__, __LINE__);
}

bool Expiry::expire(Operation& op) {
  bool expired = op.deadline().ns() <= now_;
  if (!expired && !op.cancel_asked()) return false;
  auto& work = op.scratch<Work>();
  if (work.started()) {
    // It cannot be called back. A cancelled one mostly ends by itself; give it a little time.
    if (work.cancel_seen == 0) work.cancel_seen = now_;
    lane_must_go_ |= expired || now_ - work.cancel_seen > grace_;
    return false;
  }
  failures_.push_back(
      {&op, expired ? deadline_error(peer_name_, adapter_name_) : cancelled_error(peer_name_)});
  return true;
}

}  // namespace ferry::fabric::verbs
