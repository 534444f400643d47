#pragma once

#include <ps/base.h>
#include <ps/internal/customer.h>
#include <ps/internal/env.h>
#include <ps/internal/utils.h>
#include <ps/internal/van.h>
#include <ps/range.h>

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ps {

// What a process knows of the system it is part of: who it is, who the others are.
class Postoffice {
 public:
  using Callback = std::function<void()>;
  static Postoffice* Get();
  // Never null.
  Van* van() { return &van_; }

  // Takes part in the system that the environment names (DMLC_*).
  void Start(int customer_id, const char* argv0, bool do_barrier);
  void Finalize(int customer_id, bool do_barrier = true);

  void AddCustomer(Customer* customer);
  void RemoveCustomer(Customer* customer);
  // Waits up to `timeout` seconds for it to be made; null if it was not.
  Customer* GetCustomer(int app_id, int customer_id, int timeout = 0) const;
  void Send(const Message& message);
  // Receives on the calling thread until ready(), or for a while: whether it was. False, at once,
  // if another thread does so already.
  bool ReceiveUntil(const std::function<bool()>& ready);
  // Throws dmlc::Error if a server or the scheduler has died, or the system was finalized: nobody
  // would ever answer.
  void CheckAlive();

  // A node, or all of a group.
  const std::vector<int>& GetNodeIDs(int node_id) const;
  // Every server has one of as many equal ranges of keys.
  const std::vector<Range>& GetServerKeyRanges();
  void RegisterExitCallback(const Callback& cb);
  static int WorkerRankToID(int rank) { return rank * 2 + 9; }
  static int ServerRankToID(int rank) { return rank * 2 + 8; }
  static int IDtoRank(int id) { return id < 8 ? 0 : (id - 8) / 2; }

  int num_workers() const;
  int num_servers() const;
  int my_rank() const;
  bool is_worker() const;
  bool is_server() const;
  bool is_scheduler() const;
  int verbose() const;
  bool is_recovery() const { return van_.my_node().is_recovery; }
  // Waits until all nodes of the group, which this one belongs to, have come here.
  void Barrier(int customer_id, int node_group);
  // Nodes that have gone without a word.
  std::vector<int> GetDeadNodes(int t = 60);

 private:
  friend class Van;
  class Core;
  Postoffice();
  ~Postoffice();
  std::unique_ptr<Core> core_;
  Van van_;
};

}  // namespace ps
