#include <ps/ps.h>

#include <chrono>
#include <utility>

// Customers and simple applications.

namespace ps {
namespace {

// Between two tries to be the one who receives.
constexpr std::chrono::milliseconds kTurn{1};

}  // namespace

Customer::Customer(int app_id, int customer_id, const RecvHandle& recv_handle)
    : app_id_(app_id), customer_id_(customer_id), recv_handle_(recv_handle) {
  thread_ = std::thread([this] { Receiving(); });
  Postoffice::Get()->AddCustomer(this);
}

Customer::~Customer() {
  Postoffice::Get()->RemoveCustomer(this);
  {
    std::lock_guard<std::mutex> lock(queue_mu_);
    stop_ = true;
  }
  queue_cond_.notify_all();
  thread_.join();
}

int Customer::NewRequest(int recver) {
  const auto expected = static_cast<int>(Postoffice::Get()->GetNodeIDs(recver).size());
  std::lock_guard<std::mutex> lock(tracker_mu_);
  open_[++last_] = {expected, 0};
  return last_;
}

// Whoever waits receives: no other thread needs to be woken.
void Customer::WaitRequest(int timestamp) {
  const auto done = [&] {
    const std::lock_guard<std::mutex> lock(tracker_mu_);
    return open_.count(timestamp) == 0;
  };
  while (!done()) {
    if (Postoffice::Get()->ReceiveUntil(done)) return;
    std::unique_lock<std::mutex> lock(tracker_mu_);
    tracker_cond_.wait_for(lock, kTurn, [&] { return open_.count(timestamp) == 0; });
    lock.unlock();
    Postoffice::Get()->CheckAlive();
  }
}

int Customer::NumResponse(int timestamp) {
  std::lock_guard<std::mutex> lock(tracker_mu_);
  const auto found = open_.find(timestamp);
  return found == open_.end() ? 0 : found->second.answered;
}

void Customer::AddResponse(int timestamp, int num) {
  std::lock_guard<std::mutex> lock(tracker_mu_);
  const auto found = open_.find(timestamp);
  if (found == open_.end()) return;
  found->second.answered += num;
  if (found->second.answered < found->second.expected) return;
  open_.erase(found);
  tracker_cond_.notify_all();
}

void Customer::Handle(const Message& message) noexcept {
  recv_handle_(message);
  if (!message.meta.request) AddResponse(message.meta.timestamp);
}

void Customer::Accept(const Message& recved, bool at_once) {
  std::unique_lock<std::mutex> lock(queue_mu_);
  if (!at_once || busy_ || !queue_.empty()) {
    queue_.push_back(recved);
    queue_cond_.notify_one();
    return;
  }
  busy_ = true;
  lock.unlock();
  Handle(recved);
  lock.lock();
  busy_ = false;
  if (stop_ || !queue_.empty()) queue_cond_.notify_one();
}

void Customer::Receiving() {
  std::unique_lock<std::mutex> lock(queue_mu_);
  for (;;) {
    queue_cond_.wait(lock, [this] { return !busy_ && (stop_ || !queue_.empty()); });
    if (queue_.empty()) return;
    busy_ = true;
    {
      const Message message = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Handle(message);
    }
    lock.lock();
    busy_ = false;
  }
}

SimpleApp::SimpleApp() {
  request_handle_ = [](const SimpleData& recved, SimpleApp* app) { app->Response(recved); };
  response_handle_ = [](const SimpleData&, SimpleApp*) {};
}

SimpleApp::SimpleApp(int app_id, int customer_id) : SimpleApp() {
  obj_ = new Customer(app_id, customer_id, [this](const Message& msg) { Process(msg); });
}

SimpleApp::~SimpleApp() { Stop(); }

void SimpleApp::Stop() {
  delete obj_;
  obj_ = nullptr;
}

int SimpleApp::Request(int req_head, const std::string& req_body, int recv_id) {
  const int ts = obj_->NewRequest(recv_id);
  Message msg;
  msg.meta.head = req_head;
  msg.meta.body = req_body;
  msg.meta.timestamp = ts;
  msg.meta.request = true;
  msg.meta.simple_app = true;
  msg.meta.app_id = obj_->app_id();
  msg.meta.customer_id = obj_->customer_id();
  for (const int id : Postoffice::Get()->GetNodeIDs(recv_id)) {
    msg.meta.recver = id;
    Postoffice::Get()->Send(msg);
  }
  return ts;
}

void SimpleApp::Response(const SimpleData& recv_req, const std::string& res_body) {
  Message msg;
  msg.meta.head = recv_req.head;
  msg.meta.body = res_body;
  msg.meta.timestamp = recv_req.timestamp;
  msg.meta.request = false;
  msg.meta.simple_app = true;
  msg.meta.app_id = obj_->app_id();
  msg.meta.customer_id = recv_req.customer_id;
  msg.meta.recver = recv_req.sender;
  Postoffice::Get()->Send(msg);
}

void SimpleApp::Process(const Message& msg) {
  SimpleData data;
  data.head = msg.meta.head;
  data.body = msg.meta.body;
  data.sender = msg.meta.sender;
  data.timestamp = msg.meta.timestamp;
  data.customer_id = msg.meta.customer_id;
  (msg.meta.request ? request_handle_ : response_handle_)(data, this);
}

}  // namespace ps
