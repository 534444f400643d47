#pragma once

#include <ps/ps.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/device.h"
#include "ferry/interop/pslite/job_secret_internal.h"
#include "ferry/transfer/mail_hub.h"

namespace ps {

// One node's part of the system: mailboxes to others, who they are, barriers. Failures that a
// program for ps-lite has no way to hear of throw dmlc::Error where the program calls, and
// elsewhere end the process with a sentence.
//
// DMLC_NUM_WORKER counts calls of Start(), as ps-lite does: a process whose customers 0 and 1 call
// it before the system is ready takes two ranks. The process goes by the first of them; the others
// are further names of the same process. A program may instead declare one worker for each process
// and start more customers than that; those share the rank of their process.
class Postoffice::Core final : ferry::transfer::MailHub::Handler {
 public:
  Core();
  ~Core() = default;

  void start(int customer_id, bool do_barrier);
  void finalize(int customer_id, bool do_barrier);
  void add(Customer* customer);
  void remove(Customer* customer);
  Customer* find(int app_id, int customer_id, int timeout);
  void send(const Message& message);
  void barrier(int customer_id, int group);
  bool receive_until(const std::function<bool()>& ready);
  // Throws if a server or the scheduler has died, or the system was finalized: what the caller
  // waits for does not come.
  void check_alive();
  std::vector<int> dead_nodes();
  const Node& my_node();
  bool is_ready();

  std::map<int, std::vector<int>> groups;  // node or sum of groups -> nodes
  std::vector<Range> ranges;
  std::vector<Callback> exit_callbacks;
  std::string role;
  int workers = 0;
  int servers = 0;
  int id = Meta::kEmpty;
  int verbose = 0;

 private:
  using Peer = ferry::transfer::MailHub::Peer;
  using PeerPtr = std::shared_ptr<Peer>;
  // What a message between nodes is.
  enum class Kind : std::uint8_t {
    kData = 0,
    kJoin,         // a customer of a process has called Start()
    kTable,        // all have: who is where
    kBarrier,      // a customer has come to a barrier
    kBarrierDone,  // all have
    kBye,
    kRefused,  // more have called Start() than were declared
  };
  // kStopped -> kOpening: the first Start(); -> kOpen: its connection to the scheduler is there;
  // -> kStopped: Finalize(0), or the opening has failed.
  enum class Stage : std::uint8_t { kStopped, kOpening, kOpen };
  // A process that has joined.
  struct Joined {
    std::string role;
    std::string endpoint;
    PeerPtr peer;
    std::vector<int> customers;  // one for each rank that the process takes
  };
  // What the table says of a node.
  struct NodeEntry {
    int process = 0;  // the node by which messages of its process go
    int customer = 0;
    std::string endpoint;
  };
  // One call of Barrier() that has not returned.
  struct Waiting {
    int process = 0;
    std::uint32_t request = 0;  // unique within the process
  };
  // Keeps the hub from being closed while a thread uses it.
  class HubUse {
   public:
    explicit HubUse(Core& core);
    ~HubUse() { core_.hub_users_.fetch_sub(1); }
    HubUse(const HubUse&) = delete;
    HubUse& operator=(const HubUse&) = delete;
    explicit operator bool() const { return allowed_; }

   private:
    Core& core_;
    bool allowed_ = false;
  };

  // What was sent to a peer and came from it last, so that the same keys need not travel again.
  struct Keys {
    std::mutex sending;  // held from the decision until the message is on its way
    std::vector<char> sent;
    SArray<char> sent_array;  // if `sent` came from there: an array that nobody changes
    SArray<char> received;
  };

  void read_environment();
  void open();
  void open_hub(const std::string& secret);
  void connect_scheduler(const std::string& given);
  void make_groups();
  // A check that fails in one of these ends the process: nobody could catch what it throws.
  void arrived(const PeerPtr& from, ferry::transfer::Message message) noexcept override;
  void gone(std::uint64_t peer) noexcept override;
  void joined(const PeerPtr& from, ferry::bootstrap::Decoder& in);
  void refuse(const Joined& one);
  void assign_ids();
  void learn_table(ferry::bootstrap::Decoder& in);
  void apply_table();
  void refused(ferry::bootstrap::Decoder& in);
  void customer_done(int customer_id);
  void wait_for_customers();
  int process_of(int node);
  void close_hub();
  void count_barrier(int process, int customer_id, int group, std::uint32_t request);
  std::map<int, int> barrier_members(int customer_id, int group) const;
  // Of a process that has died: nobody waits for it at barriers, and none of its calls returns.
  void forget_waiting(int process);
  void finish_barriers();
  void barrier_done(std::uint32_t request);
  void data_arrived(const PeerPtr& from, int sender, ferry::bootstrap::Decoder& in,
                    ferry::transfer::Message message);
  void deliver(Message message, bool at_once);
  PeerPtr route_to(int node);
  ferry::Status try_post(const PeerPtr& peer, const std::vector<std::byte>& head,
                         const Message* data);
  void post(const PeerPtr& peer, const std::vector<std::byte>& head, const Message* data);
  void say(int node, Kind kind, const std::vector<std::byte>& body);
  std::vector<std::byte> head_of(Kind kind) const;
  Customer* customer_for(const Meta& meta) const;
  std::shared_ptr<Keys> keys_of(std::uint64_t peer);
  static bool same_keys(Keys& keys, const SArray<char>& array);

  std::string root_;                               // the scheduler's endpoint
  std::string listen_;                             // this node's
  std::shared_ptr<ferry::fabric::Device> device_;  // shared with arrays that messages lie in
  std::unique_ptr<ferry::transfer::MailHub> hub_;
  std::optional<JobSecret> secret_;  // at a scheduler that has made one

  std::atomic<int> hub_users_{0};
  std::atomic<bool> hub_closed_{true};

  std::mutex mu_;
  std::condition_variable changed_;
  Stage stage_ = Stage::kStopped;
  bool ready_ = false;               // everybody is known
  std::string refusal_;              // why this process may not take part
  bool counted_ = false;             // some process takes several ranks, one for each customer
  std::set<int> customers_at_work_;  // but for customer 0: called Start(), and are not done yet
  std::map<int, NodeEntry> table_;
  Node node_;  // this one, from when it is ready
  std::map<int, PeerPtr> routes_;
  std::map<std::uint64_t, int> nodes_;  // of peers that said who they are
  std::map<std::uint64_t, std::shared_ptr<Keys>> keys_;
  std::vector<Joined> joiners_;  // at the scheduler
  std::set<int> left_;           // said so
  std::set<int> dead_;           // did not
  // At the scheduler: who has come to the barrier of a customer and a group, in this order.
  std::map<std::pair<int, int>, std::vector<Waiting>> barriers_;
  std::uint32_t last_request_ = 0;
  std::set<std::uint32_t> barriers_done_;
  std::mutex connecting_;

  std::mutex customers_mu_;
  std::condition_variable customers_changed_;
  std::map<std::pair<int, int>, Customer*> customers_;
  bool several_ = false;            // customers, at some time
  std::map<Customer*, int> given_;  // messages that are being handed over
  std::vector<Message> waiting_;    // for a customer that is not there yet
};

}  // namespace ps
