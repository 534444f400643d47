#include <algorithm>

#include "ferry/interop/pslite/join_list_internal.h"

namespace ps {

JoinList::Outcome JoinList::add(Joined one, const Settings& settings) {
  const auto known = std::find_if(all_.begin(), all_.end(), [&](const Joined& other) {
    return other.peer->id == one.peer->id;
  });
  int taken = 0;  // ranks of the role
  std::size_t ranks = 0;
  for (const auto& other : all_) {
    ranks += other.customers.size();
    if (other.role == one.role) taken += static_cast<int>(other.customers.size());
  }
  const auto declared = static_cast<std::size_t>(settings.servers + settings.workers);
  if (taken >= settings.declared(one.role) || ranks >= declared)
    return known == all_.end() ? Outcome::kTooMany : Outcome::kShares;
  if (known == all_.end()) {
    all_.push_back(std::move(one));
  } else {
    auto& customers = known->customers;
    if (std::count(customers.begin(), customers.end(), one.customers[0]) > 0)
      return Outcome::kShares;
    customers.push_back(one.customers[0]);
  }
  return ranks + 1 == declared ? Outcome::kComplete : Outcome::kCounted;
}

void JoinList::assign(NodeTable& nodes) {
  int server = 0;
  int worker = 0;
  for (auto& one : all_) {
    int& rank = one.role == "server" ? server : worker;
    const auto node_of = [&] {
      return one.role == "server" ? Postoffice::ServerRankToID(rank)
                                  : Postoffice::WorkerRankToID(rank);
    };
    one.process = node_of();
    for (const int customer : one.customers) {
      nodes.add(node_of(), {one.process, customer, one.endpoint});
      ++rank;
    }
    nodes.set_route(one.process, one.peer);
  }
}

}  // namespace ps
