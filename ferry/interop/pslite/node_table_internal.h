#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ferry/bootstrap/codec.h"
#include "ferry/interop/pslite/post_hub_internal.h"

namespace ps {

// Who the nodes are, where they are, and which of them are gone. Several nodes may be names of one
// process, which is known by the first of them. Used under the lock of its owner.
class NodeTable {
 public:
  using PeerPtr = PostHub::PeerPtr;
  struct Entry {
    int process = 0;  // the node by which messages of its process go
    int customer = 0;
    std::string endpoint;
  };

  void add(int node, Entry entry) { entries_[node] = std::move(entry); }
  // Throws dmlc::Error if there is no such node.
  const Entry& at(int node) const;
  // Whether some process has several nodes, one for each customer.
  bool is_counted() const;
  bool has(int process, int customer) const;
  // How many of these nodes each process has, but for the dead.
  std::map<int, int> living(const std::vector<int>& nodes) const;
  std::vector<int> dead_nodes() const;
  const std::set<int>& dead() const { return dead_; }
  void put(ferry::bootstrap::Encoder& out) const;
  void get(ferry::bootstrap::Decoder& in);

  // The way by which messages reach a process; null: none is known.
  PeerPtr route(int process) const;
  std::vector<PeerPtr> routes() const;
  void set_route(int process, const PeerPtr& peer);
  // The peer has said who it is; what was known before stays.
  void heard_from(int process, const PeerPtr& peer);
  void said_bye(int process) { left_.insert(process); }
  bool is_gone(int process) const { return dead_.count(process) > 0 || left_.count(process) > 0; }
  // A connection has ended. The process that has died by it, or Meta::kEmpty: none has.
  int disconnected(std::uint64_t peer);
  void clear() { *this = NodeTable(); }

 private:
  std::map<int, Entry> entries_;
  std::map<int, PeerPtr> routes_;           // by process
  std::map<std::uint64_t, int> processes_;  // of peers that said who they are
  std::set<int> left_;                      // said so
  std::set<int> dead_;                      // did not
};

}  // namespace ps
