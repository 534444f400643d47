#pragma once

#include <string>

#include "ferry/cli/doctor_peer.h"
#include "ferry/mail/tuning_cache.h"

namespace ferry::cli {

// Calibrates with `ferry tune --listen` at the endpoint, or waits there for `ferry tune --peer`:
// what was found, as it is kept at both ends.
struct TunePeer {
  PeerOptions peer;
  std::string provider = "auto";
  double seconds = 2;
};
Result<mail::TuningEntry> tune_with_peer(const std::string& endpoint, const TunePeer& options,
                                         const mail::TuningCache& cache);
Result<mail::TuningEntry> tune_as_peer(const std::string& listen, const TunePeer& options,
                                       const mail::TuningCache& cache);

}  // namespace ferry::cli
