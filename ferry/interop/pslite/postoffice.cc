#include <cstdlib>

#include "ferry/interop/pslite/post_core_internal.h"

namespace ps {

Environment* Environment::Get() {
  static Environment environment;
  return &environment;
}

Environment* Environment::Init(const std::unordered_map<std::string, std::string>& envs) {
  auto* environment = Get();
  environment->over_ = envs;
  return environment;
}

const char* Environment::find(const char* key) const {
  const auto found = over_.find(key);
  return found == over_.end() ? std::getenv(key) : found->second.c_str();
}

Postoffice::Postoffice() : core_(std::make_unique<Core>()) {}
Postoffice::~Postoffice() = default;

// Never destroyed: threads of programs that end without Finalize() may still use it.
Postoffice* Postoffice::Get() {
  static auto* office = new Postoffice();
  return office;
}

void Postoffice::Start(int customer_id, const char* argv0, bool do_barrier) {
  (void)argv0;
  core_->start(customer_id, do_barrier);
}
void Postoffice::Finalize(int customer_id, bool do_barrier) {
  core_->finalize(customer_id, do_barrier);
}

const Node& Van::my_node() const { return Postoffice::Get()->core_->my_node(); }
bool Van::IsReady() const { return Postoffice::Get()->core_->is_ready(); }

int Van::Send(const Message& msg) {
  Postoffice::Get()->Send(msg);
  return msg.meta.data_size;
}
void Postoffice::AddCustomer(Customer* customer) { core_->customers.add(customer); }
void Postoffice::RemoveCustomer(Customer* customer) { core_->remove(customer); }
Customer* Postoffice::GetCustomer(int app_id, int customer_id, int timeout) const {
  return core_->customers.find(app_id, customer_id, timeout);
}
void Postoffice::Send(const Message& message) { core_->send(message); }
bool Postoffice::ReceiveUntil(const std::function<bool()>& ready) {
  return core_->receive_until(ready);
}
void Postoffice::CheckAlive() { core_->check_alive(); }

const std::vector<int>& Postoffice::GetNodeIDs(int node_id) const {
  const auto found = core_->settings.groups.find(node_id);
  CHECK(found != core_->settings.groups.end()) << "there is no node and no group " << node_id;
  return found->second;
}
const std::vector<Range>& Postoffice::GetServerKeyRanges() { return core_->settings.key_ranges; }
void Postoffice::RegisterExitCallback(const Callback& cb) { core_->exit_callbacks.push_back(cb); }
int Postoffice::num_workers() const { return core_->settings.workers; }
int Postoffice::num_servers() const { return core_->settings.servers; }
int Postoffice::my_rank() const { return IDtoRank(core_->id); }
bool Postoffice::is_worker() const { return core_->settings.role == "worker"; }
bool Postoffice::is_server() const { return core_->settings.role == "server"; }
bool Postoffice::is_scheduler() const { return core_->settings.role == "scheduler"; }
int Postoffice::verbose() const { return core_->settings.verbose; }
void Postoffice::Barrier(int customer_id, int node_group) {
  core_->barrier(customer_id, node_group);
}
std::vector<int> Postoffice::GetDeadNodes(int t) {
  (void)t;  // the fabric tells sooner
  return core_->dead_nodes();
}

}  // namespace ps
