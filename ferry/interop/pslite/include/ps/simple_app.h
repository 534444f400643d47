#pragma once

#include <ps/internal/customer.h>
#include <ps/internal/postoffice.h>

#include <functional>
#include <string>

namespace ps {

// What travels between simple applications.
struct SimpleData {
  int head = 0;
  std::string body;
  int sender = 0;
  int timestamp = 0;
  int customer_id = 0;
};

// Sends a number and a string to a node or a group, and gets an answer from each.
class SimpleApp {
 public:
  using Handle = std::function<void(const SimpleData& recved, SimpleApp* app)>;
  explicit SimpleApp(int app_id, int customer_id);
  virtual ~SimpleApp();
  SimpleApp(const SimpleApp&) = delete;
  SimpleApp& operator=(const SimpleApp&) = delete;

  // The timestamp of the request. Never blocks.
  virtual int Request(int req_head, const std::string& req_body, int recv_id);
  virtual void Wait(int timestamp) { obj_->WaitRequest(timestamp); }
  virtual void Response(const SimpleData& recv_req, const std::string& res_body = "");
  virtual void set_request_handle(const Handle& request_handle) {
    request_handle_ = request_handle;
  }
  virtual void set_response_handle(const Handle& response_handle) {
    response_handle_ = response_handle;
  }
  virtual Customer* get_customer() { return obj_; }

 protected:
  SimpleApp();
  void Process(const Message& msg);
  // Must be the first thing that a destructor of a derived class does: nothing is handled after it.
  void Stop();
  Customer* obj_ = nullptr;

 private:
  Handle request_handle_;
  Handle response_handle_;
};

}  // namespace ps
