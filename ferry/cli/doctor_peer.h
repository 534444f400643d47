#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/fabric/options.h"

namespace ferry::cli {

struct PeerOptions {
  std::string secret;
  std::string secret_file;
  double seconds = 60;
};

// With the secret of the file, or else of FERRY_SECRET. kInvalidArgument if there is neither.
Result<PeerOptions> peer_options(const std::string& secret_file, double seconds);
fabric::Options device_options(const PeerOptions& options);

// What the path to a peer is and gives.
struct Probe {
  std::string endpoint;
  std::string provider;
  std::string why;
  double connect_ms = 0;
  double control_us = 0;  // one question and answer over the control connection
  // With `ferry doctor --listen` at the other end; 0 otherwise.
  double round_us = 0;  // one small write, completed
  double write_gb_per_s = 0;
  double read_gb_per_s = 0;
};

Result<Probe> probe_peer(const std::string& endpoint, const PeerOptions& options);
// Lends a region to probing peers until the time is over.
Status serve_probes(const std::string& listen, const PeerOptions& options);
nlohmann::json to_json(const Probe& probe);
std::string to_text(const Probe& probe);

}  // namespace ferry::cli
