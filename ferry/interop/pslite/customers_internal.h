#pragma once

#include <ps/ps.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

namespace ps {

// The customers of this process, to which messages are handed. Thread-safe.
class Customers {
 public:
  // Servers and the scheduler have one customer for each application, whoever asks.
  void set_worker(bool worker);
  void add(Customer* customer);
  // Waits until nothing is being handed to it. True: it was the last one of its number.
  bool remove(Customer* customer);
  // Waits so many seconds for it to be made; null if it was not.
  Customer* find(int app_id, int customer_id, int timeout);
  // Keeps the message if its customer is not there yet. With a single customer, whoever has
  // received a message (`at_once`) handles it: no other thread needs to be woken. With several,
  // each has its thread, since one may wait for what another does.
  void deliver(Message message, bool at_once);

 private:
  Customer* customer_for(const Meta& meta) const;

  std::mutex mu_;
  std::condition_variable changed_;
  bool worker_ = false;
  std::map<std::pair<int, int>, Customer*> customers_;
  bool several_ = false;            // at some time
  std::map<Customer*, int> given_;  // messages that are being handed over
  std::vector<Message> waiting_;    // for a customer that is not there yet
};

}  // namespace ps
