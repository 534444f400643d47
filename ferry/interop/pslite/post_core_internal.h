#pragma once

#include <ps/ps.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "ferry/bootstrap/codec.h"
#include "ferry/interop/pslite/barrier_counter_internal.h"
#include "ferry/interop/pslite/customers_internal.h"
#include "ferry/interop/pslite/join_list_internal.h"
#include "ferry/interop/pslite/known_keys_internal.h"
#include "ferry/interop/pslite/node_message_internal.h"
#include "ferry/interop/pslite/node_table_internal.h"
#include "ferry/interop/pslite/post_hub_internal.h"
#include "ferry/interop/pslite/settings_internal.h"

namespace ps {

// One node's part of the system: joins it, sends and receives messages, waits at barriers, and
// leaves it. Failures that a program for ps-lite has no way to hear of throw dmlc::Error where the
// program calls, and elsewhere end the process with a sentence. Thread-safe.
//
// DMLC_NUM_WORKER counts calls of Start(), as ps-lite does: a process whose customers 0 and 1 call
// it before the system is ready takes two ranks. The process goes by the first of them; the others
// are further names of the same process. A program may instead declare one worker for each process
// and start more customers than that; those share the rank of their process.
class Postoffice::Core final : ferry::mail::MailHub::Handler {
 public:
  void start(int customer_id, bool do_barrier);
  void finalize(int customer_id, bool do_barrier);
  void remove(Customer* customer);
  void send(const Message& message);
  void barrier(int customer_id, int group);
  bool receive_until(const std::function<bool()>& ready) { return hub_.receive_until(ready); }
  // Throws if a server or the scheduler has died, or the system was finalized: what the caller
  // waits for does not come.
  void check_alive();
  std::vector<int> dead_nodes();
  const Node& my_node();
  bool is_ready();

  // Set by the first Start(), and not changed before Finalize(0).
  Settings settings;
  int id = Meta::kEmpty;
  std::vector<Callback> exit_callbacks;
  Customers customers;

 private:
  using PeerPtr = PostHub::PeerPtr;
  // kStopped -> kOpening: the first Start(); -> kOpen: its connection to the scheduler is there;
  // -> kStopped: Finalize(0), or the opening has failed.
  enum class Stage : std::uint8_t { kStopped, kOpening, kOpen };
  using Lock = std::unique_lock<std::mutex>;

  // Opens the hub, unless it is open. Holds the lock before and after.
  void open(Lock& lock);
  // Tells the scheduler of a customer. Holds the lock before and after.
  void join(int customer_id, Lock& lock);
  // Waits until all have joined.
  void wait_until_ready(Lock& lock);
  // A check that fails in one of these ends the process: nobody could catch what it throws.
  void arrived(const PeerPtr& from, ferry::mail::Message message) noexcept override;
  void gone(std::uint64_t peer) noexcept override;
  // What came from a node, by its kind.
  void data_arrived(const PeerPtr& from, int sender, ferry::bootstrap::Decoder& in,
                    ferry::mail::Message message);
  void join_arrived(const PeerPtr& from, ferry::bootstrap::Decoder& in);
  void table_arrived(ferry::bootstrap::Decoder& in);
  void barrier_arrived(int process, ferry::bootstrap::Decoder& in);
  void barrier_done(std::uint32_t request);
  void refusal_arrived(ferry::bootstrap::Decoder& in);
  // At the scheduler, under the lock: to a process too many, and to all when they are complete.
  void refuse(const JoinList::Joined& one);
  void send_table();
  // Everybody is known: under the lock.
  void apply_table();
  // At the scheduler: a customer has come; ends the barriers that are complete, under the lock.
  void count_barrier(int process, int customer_id, int group, std::uint32_t request);
  void finish_barriers();
  void customer_done(int customer_id);
  void wait_for_customers();
  void close();

  // The connection by which the process of a node is reached; a new one if there is none. Null: the
  // process is gone.
  PeerPtr route_to(int node);
  // Whether the node is a name of this process.
  bool is_own(int node);

  PostHub hub_;
  KnownKeysOfPeers keys_;
  std::mutex connecting_;  // one at a time
  std::mutex mu_;          // for what follows
  std::condition_variable changed_;
  Stage stage_ = Stage::kStopped;
  bool ready_ = false;               // everybody is known
  bool counted_ = false;             // some process takes several ranks, one for each customer
  std::string refusal_;              // why this process may not take part
  std::set<int> customers_at_work_;  // but for customer 0: called Start(), and are not done yet
  NodeTable nodes_;
  Node node_;                // this one, from when it is ready
  JoinList joins_;           // at the scheduler
  BarrierCounter barriers_;  // at the scheduler
  std::uint32_t last_request_ = 0;
  std::set<std::uint32_t> barriers_done_;
};

}  // namespace ps
