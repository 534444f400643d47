#include <chrono>
#include <cstring>
#include <thread>

#include "ferry/interop/pslite/post_core_internal.h"

// Joining, barriers, leaving.

namespace ps {
namespace {

using ferry::Deadline;
using ferry::bootstrap::Decoder;
using ferry::bootstrap::Encoder;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kJoin{60};
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

void Postoffice::Core::open() {
  ferry::fabric::Options options;
  options.listen = listen_;
  options.provider = wanted("FERRY_PROVIDER", "auto");
  options.secret = wanted("FERRY_SECRET", "");
  options.arena_bytes = std::size_t{16} << 20;
  // Who can connect to the loopback can also read a program's environment, mostly; beyond it a
  // secret is needed.
  if (options.secret.empty() && loopback(root_.substr(0, root_.rfind(':'))))
    options.secret = "ps-lite on the loopback at " + root_;
  CHECK(!options.secret.empty()) << "FERRY_SECRET, the cluster's secret, is not set";
  auto device = ferry::fabric::Device::open(options);
  CHECK(device) << device.error().to_string();
  device_ = std::make_shared<ferry::fabric::Device>(std::move(*device));
  auto hub = ferry::transfer::MailHub::open(*device_, {.tuning = ferry::transfer::TuningUse::kOff},
                                            {}, *this);
  CHECK(hub) << hub.error().to_string();
  hub_ = std::move(*hub);
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

void Postoffice::Core::start(int customer_id, bool do_barrier) {
  std::unique_lock<std::mutex> lock(mu_);
  if (!started_) {
    started_ = true;
    read_environment();
    make_groups();
    if (role == "scheduler") id = kScheduler;
    lock.unlock();
    open();
    lock.lock();
    if (role == "scheduler") {
      endpoints_[kScheduler] = device_->endpoint();
    } else {
      lock.unlock();
      // The scheduler may not be there yet.
      const auto deadline = Deadline::after(kJoin);
      auto peer = hub_->connect(root_, deadline);
      while (!peer && !deadline.expired()) {
        std::this_thread::sleep_for(milliseconds(50));
        peer = hub_->connect(root_, deadline);
      }
      CHECK(peer) << "the scheduler at " << root_ << ": " << peer.error().to_string();
      auto join = head_of(Kind::kJoin);
      Encoder(join).string(role).string(device_->endpoint());
      lock.lock();
      routes_[kScheduler] = *peer;
      nodes_[(*peer)->id] = kScheduler;
      lock.unlock();
      post(*peer, join, nullptr);
      lock.lock();
    }
  }
  const bool all = changed_.wait_for(lock, kJoin, [this] { return ready_; });
  CHECK(all) << "not all nodes have come within " << kJoin.count() << " s";
  lock.unlock();
  if (do_barrier) barrier(customer_id, kScheduler + kServerGroup + kWorkerGroup);
}

void Postoffice::Core::joined(const PeerPtr& from, Decoder& in) {
  Joined one;
  one.role = in.string(kMostText);
  one.endpoint = in.string(kMostText);
  one.peer = from;
  if (!in.ok() || role != "scheduler") return;
  std::unique_lock<std::mutex> lock(mu_);
  const auto same = std::count_if(joiners_.begin(), joiners_.end(),
                                  [&](const Joined& other) { return other.role == one.role; });
  if (same >= (one.role == "server" ? servers : workers) || ready_) {
    LOG(ERROR) << "one " << one.role << " more than declared has come, from " << one.endpoint;
    return;
  }
  joiners_.push_back(std::move(one));
  if (static_cast<int>(joiners_.size()) == servers + workers) assign_ids();
}

// Ranks go by the order in which nodes came.
void Postoffice::Core::assign_ids() {
  int server = 0;
  int worker = 0;
  std::vector<int> ids;
  for (const auto& one : joiners_) {
    const int node = one.role == "server" ? ServerRankToID(server++) : WorkerRankToID(worker++);
    ids.push_back(node);
    endpoints_[node] = one.endpoint;
    routes_[node] = one.peer;
    nodes_[one.peer->id] = node;
  }
  for (std::size_t each = 0; each < joiners_.size(); ++each) {
    auto table = head_of(Kind::kTable);
    Encoder out(table);
    out.u32(static_cast<std::uint32_t>(ids[each]));
    out.u32(static_cast<std::uint32_t>(endpoints_.size()));
    for (const auto& [node, endpoint] : endpoints_)
      out.u32(static_cast<std::uint32_t>(node)).string(endpoint);
    post(joiners_[each].peer, table, nullptr);
  }
  ready_ = true;
  changed_.notify_all();
}

void Postoffice::Core::learn_table(Decoder& in) {
  std::unique_lock<std::mutex> lock(mu_);
  id = static_cast<int>(in.u32());
  const auto count = in.u32();
  for (std::uint32_t each = 0; each < count && in.ok(); ++each) {
    const auto node = static_cast<int>(in.u32());
    endpoints_[node] = in.string(kMostText);
  }
  CHECK(in.finish("the scheduler's table").has_value());
  ready_ = true;
  changed_.notify_all();
}

void Postoffice::Core::barrier(int customer_id, int group) {
  const std::pair key(customer_id, group);
  const auto& nodes = groups.at(group);
  if (nodes.size() <= 1) return;
  CHECK(std::find(nodes.begin(), nodes.end(), id) != nodes.end())
      << "node " << id << " is not in the group of the barrier";
  if (role == "scheduler") {
    count_barrier(id, customer_id, group);
  } else {
    std::vector<std::byte> body;
    Encoder(body)
        .u32(static_cast<std::uint32_t>(customer_id))
        .u32(static_cast<std::uint32_t>(group));
    say(kScheduler, Kind::kBarrier, body);
  }
  std::unique_lock<std::mutex> lock(mu_);
  while (barriers_done_.erase(key) == 0) {
    changed_.wait_for(lock, milliseconds(100));
    lock.unlock();
    check_alive();
    lock.lock();
  }
}

void Postoffice::Core::count_barrier(int node, int customer_id, int group) {
  std::unique_lock<std::mutex> lock(mu_);
  barriers_[{customer_id, group}].insert(node);
  look_at_barriers();
}

// Further customers are the workers' own: servers and the scheduler have one.
void Postoffice::Core::look_at_barriers() {
  for (auto each = barriers_.begin(); each != barriers_.end();) {
    const auto [customer_id, group] = each->first;
    const auto& nodes = customer_id == 0 ? groups[group] : groups[group & kWorkerGroup];
    const bool all = std::all_of(nodes.begin(), nodes.end(), [&](int node) {
      return each->second.count(node) > 0 || dead_.count(node) > 0;
    });
    if (!all) {
      ++each;
      continue;
    }
    auto done = head_of(Kind::kBarrierDone);
    Encoder(done)
        .u32(static_cast<std::uint32_t>(customer_id))
        .u32(static_cast<std::uint32_t>(group));
    for (const int node : each->second) {
      if (node == id)
        barriers_done_.insert(each->first);
      else if (dead_.count(node) == 0)
        post(routes_.at(node), done, nullptr);
    }
    changed_.notify_all();
    each = barriers_.erase(each);
  }
}

void Postoffice::Core::barrier_done(int customer_id, int group) {
  std::unique_lock<std::mutex> lock(mu_);
  barriers_done_.insert({customer_id, group});
  changed_.notify_all();
}

void Postoffice::Core::gone(std::uint64_t peer) {
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
  if (role == "scheduler") look_at_barriers();
  changed_.notify_all();
}

void Postoffice::Core::check_alive() {
  std::unique_lock<std::mutex> lock(mu_);
  for (const int node : dead_)
    if (node == kScheduler || node % 2 == 0)
      LOG(FATAL) << (node == kScheduler ? "the scheduler" : "a server") << " (node " << node
                 << ") has died; what this node waits for does not come";
}

std::vector<int> Postoffice::Core::dead_nodes() {
  std::unique_lock<std::mutex> lock(mu_);
  return {dead_.begin(), dead_.end()};
}

void Postoffice::Core::finalize(int customer_id, bool do_barrier) {
  if (do_barrier) barrier(customer_id, kScheduler + kServerGroup + kWorkerGroup);
  if (customer_id != 0) return;
  std::vector<PeerPtr> peers;
  {
    std::unique_lock<std::mutex> lock(mu_);
    if (!started_) return;
    for (const auto& [node, peer] : routes_) peers.push_back(peer);
  }
  const auto bye = head_of(Kind::kBye);
  // Who has left already need not hear it.
  for (const auto& peer : peers) (void)try_post(peer, bye, nullptr);
  peers.clear();
  hub_.reset();
  std::unique_lock<std::mutex> lock(mu_);
  routes_.clear();
  joiners_.clear();
  nodes_.clear();
  keys_.clear();
  device_.reset();
  started_ = false;
  ready_ = false;
  for (const auto& callback : std::exchange(exit_callbacks, {})) callback();
}

}  // namespace ps
