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
#include "ferry/transfer/mail_hub.h"

namespace ps {

// One node's part of the system: mailboxes to others, who they are, barriers. Failures that a
// program for ps-lite has no way to hear of end the process with a sentence.
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
  bool receive_until(const std::function<bool()>& ready) {
    return hub_->receive_until(ready, ferry::Deadline::after(std::chrono::milliseconds(100)));
  }
  void check_alive();
  std::vector<int> dead_nodes();

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
  enum class Kind : std::uint8_t { kData = 0, kJoin, kTable, kBarrier, kBarrierDone, kBye };
  struct Joined {
    std::string role;
    std::string endpoint;
    PeerPtr peer;
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
  void make_groups();
  void arrived(const PeerPtr& from, ferry::transfer::Message message) override;
  void gone(std::uint64_t peer) override;
  void joined(const PeerPtr& from, ferry::bootstrap::Decoder& in);
  void assign_ids();
  void learn_table(ferry::bootstrap::Decoder& in);
  void count_barrier(int node, int customer_id, int group);
  void look_at_barriers();
  void barrier_done(int customer_id, int group);
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

  std::mutex mu_;
  std::condition_variable changed_;
  bool started_ = false;
  bool ready_ = false;  // everybody is known
  std::map<int, std::string> endpoints_;
  std::map<int, PeerPtr> routes_;
  std::map<std::uint64_t, int> nodes_;  // of peers that said who they are
  std::map<std::uint64_t, std::shared_ptr<Keys>> keys_;
  std::vector<Joined> joiners_;                            // at the scheduler
  std::set<int> left_;                                     // said so
  std::set<int> dead_;                                     // did not
  std::map<std::pair<int, int>, std::set<int>> barriers_;  // at the scheduler: who has come
  std::set<std::pair<int, int>> barriers_done_;
  std::mutex connecting_;

  std::mutex customers_mu_;
  std::condition_variable customers_changed_;
  std::map<std::pair<int, int>, Customer*> customers_;
  bool several_ = false;            // customers, at some time
  std::map<Customer*, int> given_;  // messages that are being handed over
  std::vector<Message> waiting_;    // for a customer that is not there yet
};

}  // namespace ps
