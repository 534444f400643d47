#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ferry/base/error.h"

namespace ferry::train {

// Where the tasks of a job are: "/job:ps/task:0" -> "10.0.0.1:7000".
using Places = std::map<std::string, std::string>;

struct Cluster {
  Places places;
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
};

// From a file such as {"ps": ["10.0.0.1:7000"], "worker": ["10.0.0.2:7000", "10.0.0.3:7000"]}.
// kInvalidArgument says what is wrong with it: another job, no worker, an endpoint that is none, or
// that two tasks have.
Result<Cluster> read_cluster(const std::string& path);

}  // namespace ferry::train
