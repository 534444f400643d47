#pragma once

#include <ps/ps.h>

#include <map>
#include <string>
#include <vector>

namespace ps {

// What the environment says of this node and of the system. Plain data.
struct Settings {
  // Throws dmlc::Error that names the variable that is missing or cannot be.
  static Settings read();

  bool is_scheduler() const { return role == "scheduler"; }
  // How many of a role are declared.
  int declared(const std::string& which) const { return which == "server" ? servers : workers; }
  Node::Role node_role() const;

  std::string role;
  int workers = 0;
  int servers = 0;
  int verbose = 0;
  std::string root;    // the scheduler's endpoint
  std::string listen;  // this node's
  std::string secret;  // empty: a scheduler on the loopback makes one for this user's processes
  std::string provider;
  std::string spin;
  // What follows from these.
  std::map<int, std::vector<int>> groups;  // node or sum of groups -> nodes
  std::vector<Range> key_ranges;           // every server has one of as many equal ranges of keys
};

}  // namespace ps
