#include <cstdlib>

#include "ferry/interop/pslite/settings_internal.h"

namespace ps {
namespace {

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

std::map<int, std::vector<int>> groups_of(int servers, int workers) {
  std::map<int, std::vector<int>> all;
  for (const int group : {1, 2, 3, 4, 5, 6, 7}) {
    auto& nodes = all[group];
    if (group & kScheduler) nodes.push_back(kScheduler);
    if (group & kServerGroup)
      for (int rank = 0; rank < servers; ++rank) nodes.push_back(Postoffice::ServerRankToID(rank));
    if (group & kWorkerGroup)
      for (int rank = 0; rank < workers; ++rank) nodes.push_back(Postoffice::WorkerRankToID(rank));
  }
  for (const int node : all[kServerGroup + kWorkerGroup]) all[node] = {node};
  return all;
}

std::vector<Range> key_ranges_of(int servers) {
  std::vector<Range> ranges;
  const auto most = static_cast<std::uint64_t>(kMaxKey);
  const auto each = most / static_cast<std::uint64_t>(servers);
  for (int rank = 0; rank < servers; ++rank) {
    const auto begin = each * static_cast<std::uint64_t>(rank);
    ranges.emplace_back(begin, rank + 1 == servers ? most : begin + each);
  }
  return ranges;
}

}  // namespace

Settings Settings::read() {
  Settings all;
  all.role = needed("DMLC_ROLE");
  CHECK(all.role == "worker" || all.role == "server" || all.role == "scheduler")
      << "DMLC_ROLE is '" << all.role << "', and not worker, server or scheduler";
  all.workers = std::atoi(needed("DMLC_NUM_WORKER"));
  all.servers = std::atoi(needed("DMLC_NUM_SERVER"));
  CHECK_GT(all.workers, 0) << "DMLC_NUM_WORKER";
  CHECK_GT(all.servers, 0) << "DMLC_NUM_SERVER";
  all.verbose = GetEnv("PS_VERBOSE", 0);
  const std::string host = needed("DMLC_PS_ROOT_URI");
  all.root = host + ":" + needed("DMLC_PS_ROOT_PORT");
  all.listen =
      all.is_scheduler() ? all.root : wanted("DMLC_NODE_HOST", loopback(host) ? host : "") + ":0";
  CHECK(all.listen != ":0") << "DMLC_NODE_HOST says at which address the others find this node";
  all.secret = wanted("FERRY_SECRET", "");
  CHECK(!all.secret.empty() || loopback(host)) << "FERRY_SECRET, the cluster's secret, is not set";
  all.provider = wanted("FERRY_PROVIDER", "auto");
  all.spin = wanted("FERRY_SPIN", "");
  all.groups = groups_of(all.servers, all.workers);
  all.key_ranges = key_ranges_of(all.servers);
  return all;
}

Node::Role Settings::node_role() const {
  if (is_scheduler()) return Node::SCHEDULER;
  return role == "server" ? Node::SERVER : Node::WORKER;
}

}  // namespace ps
