// Data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/verbs/peer_grants_internal.h"
#include "ferry/fabric/verbs/shared_internal.h"

namespace ferry::fabric::verbs {

// What a lane remembers of an operation, in Operation::scratch().
struct Work {
  std::byte* local = nullptr;
  std::uint64_t length = 0;
  std::uint64_t posted = 0;  // bytes of the payload
  std::uint64_t offset = 0;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint64_t flag_offset = 0;
  std::uint64_t flag_value = 0;
  PeerGrant* target = nullptr;       // none for messages
  PeerGrant* flag_target = nullptr;  // flagged writes
  Buffer* bounce = nullptr;          // what the device sees of a small unregistered payload
  std::int64_t cancel_seen = 0;
  std::uint32_t lkey = 0;
  bool notify = false;
  bool payload_posted = false;
  bool checked = false;  // against what the owner said of the grants
  bool leased = false;
  alignas(
      memory::RegistrationCache::Lease) std::byte lease[sizeof(memory::RegistrationCache::Lease)];

  bool started() const { return posted != 0 || payload_posted; }
  bool uses(const PeerGrant* grant) const { return target == grant || flag_target == grant; }
  // Where the device finds the local bytes.
  std::uint64_t source() const {
    return reinterpret_cast<std::uint64_t>(bounce != nullptr ? bounce->data : local);
  }
};

// The operation's Work, from what its request says of the payload.
Work& begin_work(Operation& op, const Request& request);
// Makes the local bytes known to the device: they go inline, lie in a block, are copied or
// registered.
Status map_local(Shared& shared, std::uint32_t inline_bytes, Verb verb, Work& work);
// Takes that back, when the device touches them no more; what was read arrives, if it is there.
void unmap_local(Shared& shared, bool read_is_there, Work& work);

// Operations that wait, oldest first.
struct OperationList {
  Operation* head = nullptr;
  Operation* tail = nullptr;

  bool empty() const { return head == nullptr; }
  void push(Operation* op) {
    op->next = nullptr;
    (tail == nullptr ? head : tail->next) = op;
    tail = op;
  }
  void push_front(Operation* op) {
    op->next = head;
    head = op;
    if (tail == nullptr) tail = op;
  }
  Operation* pop() {
    Operation* op = std::exchange(head, head->next);
    if (head == nullptr) tail = nullptr;
    return op;
  }
  template <class F>
  void remove_if(F& condition) {
    Operation* op = std::exchange(head, nullptr);
    tail = nullptr;
    while (op != nullptr) {
      Operation* after = op->next;
      if (!condition(*op)) push(op);
      op = after;
    }
  }
};

// An operation that is over, and what it fails with once no lock is held: its callback may post.
struct Failure {
  Operation* op;
  Error error;
};
using Failures = std::vector<Failure>;

}  // namespace ferry::fabric::verbs
