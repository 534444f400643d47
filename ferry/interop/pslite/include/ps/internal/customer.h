#pragma once

#include <ps/internal/message.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace ps {

// One user of the system within a process: sends requests and waits for their answers, and handles
// what comes for it: on a thread of its own, or, in a process that never had more than one
// customer, mostly on the thread that receives.
class Customer {
 public:
  using RecvHandle = std::function<void(const Message& recved)>;
  Customer(int app_id, int customer_id, const RecvHandle& recv_handle);
  ~Customer();
  Customer(const Customer&) = delete;
  Customer& operator=(const Customer&) = delete;

  int app_id() const { return app_id_; }
  int customer_id() const { return customer_id_; }
  // A request to a node or a group: its timestamp. Thread-safe, like all of these.
  int NewRequest(int recver);
  // Until all have answered.
  void WaitRequest(int timestamp);
  int NumResponse(int timestamp);
  // As if so many had answered.
  void AddResponse(int timestamp, int num = 1);
  // For the one who receives: handles it at once, if that is allowed and nothing else is being
  // handled; else the customer's thread does.
  void Accept(const Message& recved, bool at_once = false);

 private:
  struct Request {
    int expected = 0;
    int answered = 0;
  };
  void Receiving();
  // What the program's handler throws ends the process, whichever thread it is called on.
  void Handle(const Message& message) noexcept;
  int app_id_;
  int customer_id_;
  RecvHandle recv_handle_;
  std::mutex tracker_mu_;
  std::condition_variable tracker_cond_;
  std::map<int, Request> open_;  // requests that have not all their answers
  int last_ = -1;
  std::mutex queue_mu_;
  std::condition_variable queue_cond_;
  std::deque<Message> queue_;
  bool busy_ = false;  // a message is being handled
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ps
