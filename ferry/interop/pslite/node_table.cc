#include <algorithm>

#include "ferry/interop/pslite/node_table_internal.h"

namespace ps {
namespace {

constexpr std::size_t kMostEndpoint = 1024;

}  // namespace

const NodeTable::Entry& NodeTable::at(int node) const {
  const auto entry = entries_.find(node);
  CHECK(entry != entries_.end()) << "there is no node " << node;
  return entry->second;
}

bool NodeTable::is_counted() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& each) { return each.first != each.second.process; });
}

bool NodeTable::has(int process, int customer) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& each) {
    return each.second.process == process && each.second.customer == customer;
  });
}

std::map<int, int> NodeTable::living(const std::vector<int>& nodes) const {
  std::map<int, int> processes;
  for (const int node : nodes) {
    const auto entry = entries_.find(node);
    if (entry != entries_.end() && dead_.count(entry->second.process) == 0)
      ++processes[entry->second.process];
  }
  return processes;
}

std::vector<int> NodeTable::dead_nodes() const {
  std::vector<int> nodes;
  for (const auto& [node, entry] : entries_)
    if (dead_.count(entry.process) > 0) nodes.push_back(node);
  return nodes;
}

void NodeTable::put(ferry::bootstrap::Encoder& out) const {
  out.u32(static_cast<std::uint32_t>(entries_.size()));
  for (const auto& [node, entry] : entries_)
    out.u32(static_cast<std::uint32_t>(node))
        .u32(static_cast<std::uint32_t>(entry.process))
        .u32(static_cast<std::uint32_t>(entry.customer))
        .string(entry.endpoint);
}

void NodeTable::get(ferry::bootstrap::Decoder& in) {
  const auto count = in.u32();
  for (std::uint32_t each = 0; each < count && in.ok(); ++each) {
    auto& entry = entries_[static_cast<int>(in.u32())];
    entry.process = static_cast<int>(in.u32());
    entry.customer = static_cast<int>(in.u32());
    entry.endpoint = in.string(kMostEndpoint);
  }
}

NodeTable::PeerPtr NodeTable::route(int process) const {
  const auto found = routes_.find(process);
  return found == routes_.end() ? nullptr : found->second;
}

std::vector<NodeTable::PeerPtr> NodeTable::routes() const {
  std::vector<PeerPtr> peers;
  for (const auto& [process, peer] : routes_) peers.push_back(peer);
  return peers;
}

void NodeTable::set_route(int process, const PeerPtr& peer) {
  routes_[process] = peer;
  processes_[peer->id] = process;
}

void NodeTable::heard_from(int process, const PeerPtr& peer) {
  processes_.emplace(peer->id, process);
  routes_.emplace(process, peer);
}

int NodeTable::disconnected(std::uint64_t peer) {
  const auto known = processes_.find(peer);
  if (known == processes_.end()) return Meta::kEmpty;
  const int process = known->second;
  processes_.erase(known);
  if (const auto way = routes_.find(process); way != routes_.end() && way->second->id == peer)
    routes_.erase(way);
  if (left_.count(process) > 0) return Meta::kEmpty;
  dead_.insert(process);
  return process;
}

}  // namespace ps
