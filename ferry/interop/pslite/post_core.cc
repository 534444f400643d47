#include <chrono>
#include <cstdlib>

#include "ferry/interop/pslite/post_core_internal.h"

// Joining and leaving.

namespace ps {
namespace {

using ferry::Deadline;
using ferry::bootstrap::Decoder;
using ferry::bootstrap::Encoder;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kJoin{60};
constexpr seconds kSilent{5};  // until a wait in Finalize() is explained
constexpr std::size_t kMostText = 1024;
constexpr int kEverybody = kScheduler + kServerGroup + kWorkerGroup;

}  // namespace

// The first customer opens the hub; each of them tells the scheduler of itself.
void Postoffice::Core::start(int customer_id, bool do_barrier) {
  Lock lock(mu_);
  open(lock);
  if (customer_id != 0) customers_at_work_.insert(customer_id);
  if (!settings.is_scheduler() && !ready_) join(customer_id, lock);
  wait_until_ready(lock);
  CHECK(!counted_ || nodes_.has(id, customer_id) || !do_barrier)
      << "customer " << customer_id << " calls Start() when all " << settings.workers
      << " workers and " << settings.servers
      << " servers have: DMLC_NUM_WORKER counts every customer of every process";
  lock.unlock();
  if (do_barrier) barrier(customer_id, kEverybody);
}

void Postoffice::Core::open(Lock& lock) {
  changed_.wait_for(lock, kJoin, [this] { return stage_ != Stage::kOpening; });
  CHECK(stage_ != Stage::kOpening) << "another customer is in Start() for too long";
  if (stage_ == Stage::kOpen) return;
  settings = Settings::read();
  customers.set_worker(settings.role == "worker");
  id = settings.is_scheduler() ? kScheduler : Meta::kEmpty;
  stage_ = Stage::kOpening;
  lock.unlock();
  PeerPtr scheduler;
  try {
    if (settings.is_scheduler())
      hub_.open_scheduler(settings, *this);
    else
      scheduler = hub_.connect_scheduler(settings, *this);
  } catch (...) {
    hub_.close();
    lock.lock();
    stage_ = Stage::kStopped;
    changed_.notify_all();
    throw;
  }
  lock.lock();
  if (scheduler != nullptr) nodes_.set_route(kScheduler, scheduler);
  stage_ = Stage::kOpen;
  changed_.notify_all();
}

void Postoffice::Core::join(int customer_id, Lock& lock) {
  const auto scheduler = nodes_.route(kScheduler);
  CHECK(scheduler != nullptr) << "the scheduler at " << settings.root << " is gone";
  lock.unlock();
  auto request = head_of(MessageKind::kJoin, id);
  Encoder(request)
      .string(settings.role)
      .string(hub_.endpoint())
      .u32(static_cast<std::uint32_t>(customer_id));
  hub_.post(scheduler, request);
  lock.lock();
}

void Postoffice::Core::wait_until_ready(Lock& lock) {
  const bool told = changed_.wait_for(lock, kJoin, [this] { return ready_ || !refusal_.empty(); });
  CHECK(told) << "not all nodes have come within " << kJoin.count() << " s";
  CHECK(refusal_.empty()) << refusal_;
}

void Postoffice::Core::join_arrived(const PeerPtr& from, Decoder& in) {
  JoinList::Joined one;
  one.role = in.string(kMostText);
  one.endpoint = in.string(kMostText);
  one.customers = {static_cast<int>(in.u32())};
  one.peer = from;
  if (!in.ok() || !settings.is_scheduler()) return;
  const Lock lock(mu_);
  switch (joins_.add(one, settings)) {
    case JoinList::Outcome::kTooMany:
      return refuse(one);
    case JoinList::Outcome::kComplete:
      return send_table();
    case JoinList::Outcome::kCounted:
    case JoinList::Outcome::kShares:
      return;
  }
}

void Postoffice::Core::refuse(const JoinList::Joined& one) {
  std::ostringstream why;
  why << "one " << one.role << " more than declared has come, from " << one.endpoint
      << ": DMLC_NUM_SERVER is " << settings.servers << ", DMLC_NUM_WORKER is " << settings.workers
      << ", and every customer that calls Start() counts";
  LOG(ERROR) << why.str();
  auto refusal = head_of(MessageKind::kRefused, id);
  Encoder(refusal).string(why.str());
  hub_.post(one.peer, refusal);
}

void Postoffice::Core::refusal_arrived(Decoder& in) {
  const Lock lock(mu_);
  refusal_ = in.string(kMostText);
  if (refusal_.empty()) refusal_ = "the scheduler has refused this process";
  changed_.notify_all();
}

void Postoffice::Core::send_table() {
  nodes_.add(kScheduler, {kScheduler, 0, hub_.endpoint()});
  joins_.assign(nodes_);
  for (const auto& one : joins_.all()) {
    auto table = head_of(MessageKind::kTable, id);
    Encoder out(table);
    out.u32(static_cast<std::uint32_t>(one.process));
    nodes_.put(out);
    hub_.post(one.peer, table);
  }
  apply_table();
}

void Postoffice::Core::table_arrived(Decoder& in) {
  const Lock lock(mu_);
  id = static_cast<int>(in.u32());
  nodes_.get(in);
  CHECK(in.finish("the scheduler's table").has_value());
  apply_table();
}

void Postoffice::Core::apply_table() {
  counted_ = nodes_.is_counted();
  const auto& own = nodes_.at(id);
  const auto colon = own.endpoint.rfind(':');
  node_.role = settings.node_role();
  node_.id = id;
  node_.customer_id = own.customer;
  node_.hostname = own.endpoint.substr(0, colon);
  node_.port = std::atoi(own.endpoint.c_str() + colon + 1);
  ready_ = true;
  changed_.notify_all();
}

bool Postoffice::Core::is_ready() {
  const Lock lock(mu_);
  return ready_;
}

// Good until Finalize(0): nobody changes it meanwhile.
const Node& Postoffice::Core::my_node() {
  CHECK(is_ready()) << "Start() was not called, or Finalize(0) was";
  return node_;
}

void Postoffice::Core::gone(std::uint64_t peer) noexcept {
  const Lock lock(mu_);
  keys_.erase(peer);
  const int process = nodes_.disconnected(peer);
  if (process == Meta::kEmpty) return;
  LOG(WARNING) << "node " << process << " has gone without a word";
  if (settings.is_scheduler()) {
    barriers_.forget(process);
    finish_barriers();
  }
  changed_.notify_all();
}

void Postoffice::Core::check_alive() {
  CHECK(!hub_.is_closed()) << "Finalize(0) has ended the system while another customer waits";
  const Lock lock(mu_);
  for (const int node : nodes_.dead())
    if (node == kScheduler || node % 2 == 0)
      LOG(FATAL) << (node == kScheduler ? "the scheduler" : "a server") << " (node " << node
                 << ") has died; what this node waits for does not come";
}

std::vector<int> Postoffice::Core::dead_nodes() {
  const Lock lock(mu_);
  return nodes_.dead_nodes();
}

// Customer 0 ends the system. Others of the process may still be at work: where each of them has a
// rank they meet customer 0 at the barrier; else nobody but this process knows of them, and it
// tells the others that it is done only when they are.
void Postoffice::Core::finalize(int customer_id, bool do_barrier) {
  if (customer_id != 0) {
    Lock lock(mu_);
    customers_at_work_.insert(customer_id);
    lock.unlock();
    if (do_barrier) barrier(customer_id, kEverybody);
    return customer_done(customer_id);
  }
  if (do_barrier) {
    if (!counted_) wait_for_customers();
    barrier(0, kEverybody);
    if (counted_) wait_for_customers();
  }
  close();
  for (const auto& callback : std::exchange(exit_callbacks, {})) callback();
}

void Postoffice::Core::remove(Customer* customer) {
  const int customer_id = customer->customer_id();
  if (customers.remove(customer)) customer_done(customer_id);
}

void Postoffice::Core::customer_done(int customer_id) {
  const Lock lock(mu_);
  customers_at_work_.erase(customer_id);
  changed_.notify_all();
}

void Postoffice::Core::wait_for_customers() {
  const auto said_after = Deadline::after(kSilent);
  bool said = false;
  Lock lock(mu_);
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

void Postoffice::Core::close() {
  std::vector<PeerPtr> peers;
  {
    const Lock lock(mu_);
    if (stage_ != Stage::kOpen) return;
    peers = nodes_.routes();
  }
  const auto bye = head_of(MessageKind::kBye, id);
  // Who has left already need not hear it.
  for (const auto& peer : peers) (void)hub_.try_post(peer, bye);
  peers.clear();
  const auto device = hub_.device();  // outlives the peers
  hub_.close();
  const Lock lock(mu_);
  nodes_.clear();
  joins_.clear();
  keys_.clear();
  barriers_.clear();
  customers_at_work_.clear();
  stage_ = Stage::kStopped;
  ready_ = false;
  counted_ = false;
  changed_.notify_all();
}

}  // namespace ps
