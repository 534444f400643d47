#pragma once

#include <string>
#include <vector>

#include "ferry/interop/pslite/node_table_internal.h"

namespace ps {

// At the scheduler: the processes that have joined, until all that were declared have, and the
// nodes they become. Used under the lock of its owner.
class JoinList {
 public:
  // kCounted: it waits for others. kShares: a further customer, which shares a rank of its process.
  // kTooMany: nothing of this process was declared. kComplete: all have come.
  enum class Outcome { kCounted, kShares, kTooMany, kComplete };
  // A process that has joined.
  struct Joined {
    std::string role;
    std::string endpoint;
    PostHub::PeerPtr peer;
    std::vector<int> customers;  // one for each rank that the process takes
    int process = 0;             // its first node, from assign() on
  };

  // `one` has one customer: a customer of a process has called Start().
  Outcome add(Joined one, const Settings& settings);
  // Makes nodes of all. Ranks go by the order in which processes came; those of one process follow
  // one another.
  void assign(NodeTable& nodes);
  const std::vector<Joined>& all() const { return all_; }
  void clear() { all_.clear(); }

 private:
  std::vector<Joined> all_;
};

}  // namespace ps
