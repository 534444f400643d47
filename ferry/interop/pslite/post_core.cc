#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "ferry/interop/pslite/post_core_internal.h"
#include "ferry/transfer/wait_spin.h"

// Joining, barriers, leaving.

namespace ps {
namespace {

using ferry::Deadline;
using ferry::bootstrap::Decoder;
using ferry::bootstrap::Encoder;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kJoin{60};
constexpr seconds kSilent{5};   // until a wait in Finalize() is explained
constexpr seconds kRefused{5};  // how long a scheduler with another secret is asked again
constexpr std::size_t kMostText = 1024;

const char* needed(const char* name) {
  const char* value = Environment::Get()->find(name);
  CHECK(value != nullptr) << name << " is not set; see `ferry ps --local 1x1 --pslite -- PROGRAM`";
  return value;
}

std::string wanted(const char* name, const std::string& otherwise) {
  const char* value = Environment::Get()->find(name);
  return value == nullptr ? otherwise : value;
}

bool loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

}  // namespace

Postoffice::Core::Core() = default;

void Postoffice::Core::read_environment() {
  role = needed("DMLC_ROLE");
  CHECK(role == "worker" || role == "server" || role == "scheduler")
      << "DMLC_ROLE is '" << role << "', and not worker, server or scheduler";
  workers = std::atoi(needed("DMLC_NUM_WORKER"));
  servers = std::atoi(needed("DMLC_NUM_SERVER"));
  CHECK_GT(workers, 0) << "DMLC_NUM_WORKER";
  CHECK_GT(servers, 0) << "DMLC_NUM_SERVER";
  verbose = GetEnv("PS_VERBOSE", 0);
  const std::string host = needed("DMLC_PS_ROOT_URI");
  root_ = host + ":" + needed("DMLC_PS_ROOT_PORT");
  listen_ =
      role == "scheduler" ? root_ : wanted("DMLC_NODE_HOST", loopback(host) ? host : "") + ":0";
  CHECK(listen_ != ":0") << "DMLC_NODE_HOST says at which address the others find this node";
}

// Without a secret of the user's, a scheduler on the loopback makes one for this user's processes.
void Postoffice::Core::open() {
  const auto given = wanted("FERRY_SECRET", "");
  const bool local = loopback(root_.substr(0, root_.rfind(':')));
  CHECK(!given.empty() || local) << "FERRY_SECRET, the cluster's secret, is not set";
  if (role != "scheduler") return connect_scheduler(given);
  if (!given.empty()) return open_hub(given);
  auto secret = JobSecret::create(root_);
  CHECK(secret) << secret.error().to_string();
  open_hub(secret->text());
  const auto published = secret->publish();
  CHECK(published) << published.error().to_string();
  secret_.emplace(std::move(*secret));
}

void Postoffice::Core::open_hub(const std::string& secret) {
  ferry::fabric::Options options;
  options.listen = listen_;
  options.provider = wanted("FERRY_PROVIDER", "auto");
  options.secret = secret;
  if (const auto spin = wanted("FERRY_SPIN", ""); !spin.empty())
    options.spin = ferry::transfer::spin_of_user(std::strtod(spin.c_str(), nullptr));
  options.arena_bytes = std::size_t{16} << 20;
  auto device = ferry::fabric::Device::open(options);
  CHECK(device) << device.error().to_string();
  device_ = std::make_shared<ferry::fabric::Device>(std::move(*device));
  auto hub = ferry::transfer::MailHub::open(
      *device_, {.tuning = ferry::transfer::TuningUse::kCached}, {}, *this);
  CHECK(hub) << hub.error().to_string();
  hub_ = std::move(*hub);
  hub_closed_ = false;
}

// The scheduler may not be there yet, or still be that of an earlier job, with another secret.
void Postoffice::Core::connect_scheduler(const std::string& given) {
  const auto deadline = Deadline::after(kJoin);
  Deadline refused_until = deadline;
  bool was_refused = false;
  std::string used;
  ferry::Result<PeerPtr> peer = ferry::fail(ferry::Code::kUnavailable, "nobody was asked");
  for (;;) {
    const auto secret = given.empty() ? JobSecret::find(root_) : ferry::Result<std::string>(given);
    if (!secret) {
      peer = tl::unexpected(secret.error());
    } else {
      if (*secret != used) {
        hub_closed_ = true;
        hub_.reset();
        device_.reset();
        open_hub(*secret);
        used = *secret;
        was_refused = false;
      }
      peer = hub_->connect(root_, deadline);
    }
    if (peer) break;
    const bool refused = peer.error().code() == ferry::Code::kUnauthenticated;
    if (refused && !was_refused) refused_until = Deadline::after(kRefused);
    was_refused = was_refused || refused;
    if (deadline.expired() || (refused && refused_until.expired())) break;
    std::this_thread::sleep_for(milliseconds(50));
  }
  CHECK(peer) << "the scheduler at " << root_ << ": " << peer.error().to_string();
  const std::lock_guard<std::mutex> lock(mu_);
  routes_[kScheduler] = *peer;
  nodes_[(*peer)->id] = kScheduler;
}

void Postoffice::Core::make_groups() {
  for (const int group : {1, 2, 3, 4, 5, 6, 7}) {
    auto& nodes = groups[group];
    nodes.clear();
    if (group & kScheduler) nodes.push_back(kScheduler);
    if (group & kServerGroup)
      for (int rank = 0; rank < servers; ++rank) nodes.push_back(ServerRankToID(rank));
    if (group & kWorkerGroup)
      for (int rank = 0; rank < workers; ++rank) nodes.push_back(WorkerRankToID(rank));
  }
  for (const int node : groups[kServerGroup + kWorkerGroup]) groups[node] = {node};
  ranges.clear();
  const auto most = static_cast<std::uint64_t>(kMaxKey);
  const auto each = most / static_cast<std::uint64_t>(servers);
  for (int rank = 0; rank < servers; ++rank) {
    const auto begin = each * static_cast<std::uint64_t>(rank);
    ranges.emplace_back(begin, rank + 1 == servers ? most : begin + each);
  }
}

// The first customer opens the hub; each of them tells the scheduler of itself.
void Postoffice::Core::start(int customer_id, bool do_barrier) {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait_for(lock, kJoin, [this] { return stage_ != Stage::kOpening; });
  CHECK(stage_ != Stage::kOpening) << "another customer is in Start() for too long";
  if (stage_ == Stage::kStopped) {
    read_environment();
    make_groups();
    id = role == "scheduler" ? kScheduler : Meta::kEmpty;
    stage_ = Stage::kOpening;
    lock.unlock();
    try {
      open();
    } catch (...) {
      hub_closed_ = true;
      secret_.reset();
      hub_.reset();
      device_.reset();
      lock.lock();
      stage_ = Stage::kStopped;
      changed_.notify_all();
      throw;
    }
    lock.lock();
    stage_ = Stage::kOpen;
    changed_.notify_all();
  }
  if (customer_id != 0) customers_at_work_.insert(customer_id);
  if (role != "scheduler" && !ready_) {
    const auto scheduler = routes_.at(kScheduler);
    lock.unlock();
    auto join = head_of(Kind::kJoin);
    Encoder(join)
        .string(role)
        .string(device_->endpoint())
        .u32(static_cast<std::uint32_t>(customer_id));
    post(scheduler, join, nullptr);
    lock.lock();
  }
  const bool told = changed_.wait_for(lock, kJoin, [this] { return ready_ || !refusal_.empty(); });
  CHECK(told) << "not all nodes have come within " << kJoin.count() << " s";
  CHECK(refusal_.empty()) << refusal_;
  const bool has_rank = std::any_of(table_.begin(), table_.end(), [&](const auto& each) {
    return each.second.process == id && each.second.customer == customer_id;
  });
  CHECK(!counted_ || has_rank || !do_barrier)
      << "customer " << customer_id << " calls Start() when all " << workers << " workers and "
      << servers << " servers have: DMLC_NUM_WORKER counts every customer of every process";
  lock.unlock();
  if (do_barrier) barrier(customer_id, kScheduler + kServerGroup + kWorkerGroup);
}

void Postoffice::Core::joined(const PeerPtr& from, Decoder& in) {
  Joined one;
  one.role = in.string(kMostText);
  one.endpoint = in.string(kMostText);
  one.customers = {static_cast<int>(in.u32())};
  one.peer = from;
  if (!in.ok() || role != "scheduler") return;
  std::unique_lock<std::mutex> lock(mu_);
  const auto known = std::find_if(joiners_.begin(), joiners_.end(),
                                  [&](const Joined& other) { return other.peer->id == from->id; });
  int taken = 0;  // ranks of the role
  for (const auto& other : joiners_)
    if (other.role == one.role) taken += static_cast<int>(other.customers.size());
  if (ready_ || taken >= (one.role == "server" ? servers : workers)) {
    // A further customer of a process that is counted shares its rank.
    if (known == joiners_.end()) refuse(one);
    return;
  }
  if (known == joiners_.end())
    joiners_.push_back(std::move(one));
  else if (std::count(known->customers.begin(), known->customers.end(), one.customers[0]) == 0)
    known->customers.push_back(one.customers[0]);
  std::size_t all = 0;
  for (const auto& other : joiners_) all += other.customers.size();
  if (all == static_cast<std::size_t>(servers) + static_cast<std::size_t>(workers)) assign_ids();
}

void Postoffice::Core::refuse(const Joined& one) {
  std::ostringstream why;
  why << "one " << one.role << " more than declared has come, from " << one.endpoint
      << ": DMLC_NUM_SERVER is " << servers << ", DMLC_NUM_WORKER is " << workers
      << ", and every customer that calls Start() counts";
  LOG(ERROR) << why.str();
  auto refusal = head_of(Kind::kRefused);
  Encoder(refusal).string(why.str());
  post(one.peer, refusal, nullptr);
}

void Postoffice::Core::refused(Decoder& in) {
  const std::lock_guard<std::mutex> lock(mu_);
  refusal_ = in.string(kMostText);
  if (refusal_.empty()) refusal_ = "the scheduler has refused this process";
  changed_.notify_all();
}

// Ranks go by the order in which processes came; those of one process follow one another.
void Postoffice::Core::assign_ids() {
  int server = 0;
  int worker = 0;
  table_[kScheduler] = {kScheduler, 0, device_->endpoint()};
  std::vector<int> processes;
  for (const auto& one : joiners_) {
    const int process = one.role == "server" ? ServerRankToID(server) : WorkerRankToID(worker);
    processes.push_back(process);
    for (const int customer : one.customers) {
      const int node = one.role == "server" ? ServerRankToID(server++) : WorkerRankToID(worker++);
      table_[node] = {process, customer, one.endpoint};
    }
    routes_[process] = one.peer;
    nodes_[one.peer->id] = process;
  }
  for (std::size_t each = 0; each < joiners_.size(); ++each) {
    auto table = head_of(Kind::kTable);
    Encoder out(table);
    out.u32(static_cast<std::uint32_t>(processes[each]));
    out.u32(static_cast<std::uint32_t>(table_.size()));
    for (const auto& [node, entry] : table_)
      out.u32(static_cast<std::uint32_t>(node))
          .u32(static_cast<std::uint32_t>(entry.process))
          .u32(static_cast<std::uint32_t>(entry.customer))
          .string(entry.endpoint);
    post(joiners_[each].peer, table, nullptr);
  }
  apply_table();
}

void Postoffice::Core::learn_table(Decoder& in) {
  std::unique_lock<std::mutex> lock(mu_);
  id = static_cast<int>(in.u32());
  const auto count = in.u32();
  for (std::uint32_t each = 0; each < count && in.ok(); ++each) {
    auto& entry = table_[static_cast<int>(in.u32())];
    entry.process = static_cast<int>(in.u32());
    entry.customer = static_cast<int>(in.u32());
    entry.endpoint = in.string(kMostText);
  }
  CHECK(in.finish("the scheduler's table").has_value());
  apply_table();
}

void Postoffice::Core::apply_table() {
  counted_ = std::any_of(table_.begin(), table_.end(),
                         [](const auto& each) { return each.first != each.second.process; });
  const auto& own = table_[id];
  const auto colon = own.endpoint.rfind(':');
  node_.role = role == "server" ? Node::SERVER : role == "worker" ? Node::WORKER : Node::SCHEDULER;
  node_.id = id;
  node_.customer_id = own.customer;
  node_.hostname = own.endpoint.substr(0, colon);
  node_.port = std::atoi(own.endpoint.c_str() + colon + 1);
  ready_ = true;
  changed_.notify_all();
}

bool Postoffice::Core::is_ready() {
  const std::lock_guard<std::mutex> lock(mu_);
  return ready_;
}

// Good until Finalize(0): nobody changes it meanwhile.
const Node& Postoffice::Core::my_node() {
  CHECK(is_ready()) << "Start() was not called, or Finalize(0) was";
  return node_;
}

void Postoffice::Core::gone(std::uint64_t peer) noexcept {
  std::unique_lock<std::mutex> lock(mu_);
  const auto known = nodes_.find(peer);
  if (known == nodes_.end()) return;
  const int node = known->second;
  nodes_.erase(known);
  keys_.erase(peer);
  if (const auto route = routes_.find(node); route != routes_.end() && route->second->id == peer)
    routes_.erase(route);
  if (left_.count(node) > 0) return;
  dead_.insert(node);
  LOG(WARNING) << "node " << node << " has gone without a word";
  if (role == "scheduler") {
    forget_waiting(node);
    finish_barriers();
  }
  changed_.notify_all();
}

void Postoffice::Core::check_alive() {
  CHECK(!hub_closed_) << "Finalize(0) has ended the system while another customer waits";
  std::unique_lock<std::mutex> lock(mu_);
  for (const int node : dead_)
    if (node == kScheduler || node % 2 == 0)
      LOG(FATAL) << (node == kScheduler ? "the scheduler" : "a server") << " (node " << node
                 << ") has died; what this node waits for does not come";
}

std::vector<int> Postoffice::Core::dead_nodes() {
  std::unique_lock<std::mutex> lock(mu_);
  std::vector<int> nodes;
  for (const auto& [node, entry] : table_)
    if (dead_.count(entry.process) > 0) nodes.push_back(node);
  return nodes;
}

// Customer 0 ends the system. Others of the process may still be at work: where each of them has a
// rank they meet customer 0 at the barrier; else nobody but this process knows of them, and it
// tells the others that it is done only when they are.
void Postoffice::Core::finalize(int customer_id, bool do_barrier) {
  const int everybody = kScheduler + kServerGroup + kWorkerGroup;
  if (customer_id != 0) {
    std::unique_lock<std::mutex> lock(mu_);
    customers_at_work_.insert(customer_id);
    lock.unlock();
    if (do_barrier) barrier(customer_id, everybody);
    return customer_done(customer_id);
  }
  if (do_barrier) {
    if (!counted_) wait_for_customers();
    barrier(0, everybody);
    if (counted_) wait_for_customers();
  }
  close_hub();
  for (const auto& callback : std::exchange(exit_callbacks, {})) callback();
}

void Postoffice::Core::customer_done(int customer_id) {
  const std::lock_guard<std::mutex> lock(mu_);
  customers_at_work_.erase(customer_id);
  changed_.notify_all();
}

void Postoffice::Core::wait_for_customers() {
  const auto said_after = Deadline::after(kSilent);
  bool said = false;
  std::unique_lock<std::mutex> lock(mu_);
  while (!customers_at_work_.empty()) {
    changed_.wait_for(lock, milliseconds(100));
    if (!said && said_after.expired() && !customers_at_work_.empty()) {
      LOG(WARNING) << "Finalize(0) waits for customer " << *customers_at_work_.begin()
                   << ", which has called Start() and not Finalize()";
      said = true;
    }
    lock.unlock();
    check_alive();
    lock.lock();
  }
}

void Postoffice::Core::close_hub() {
  std::vector<PeerPtr> peers;
  {
    std::unique_lock<std::mutex> lock(mu_);
    if (stage_ != Stage::kOpen) return;
    for (const auto& [node, peer] : routes_) peers.push_back(peer);
  }
  const auto bye = head_of(Kind::kBye);
  // Who has left already need not hear it.
  for (const auto& peer : peers) (void)try_post(peer, bye, nullptr);
  peers.clear();
  hub_closed_ = true;
  while (hub_users_ > 0) std::this_thread::sleep_for(milliseconds(1));
  secret_.reset();  // before the port
  hub_.reset();
  std::unique_lock<std::mutex> lock(mu_);
  routes_.clear();
  joiners_.clear();
  nodes_.clear();
  keys_.clear();
  table_.clear();
  left_.clear();
  dead_.clear();
  barriers_.clear();
  customers_at_work_.clear();
  device_.reset();
  stage_ = Stage::kStopped;
  ready_ = false;
  counted_ = false;
  changed_.notify_all();
}

}  // namespace ps
