#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ferry/fabric/device.h"
#include "ferry/mail/tuning.h"

namespace ferry::mail {

enum class SpinSource : std::uint8_t {
  kDefault,   // nothing was known of the path
  kKept,      // measured before
  kMeasured,  // for this job
  kUser,      // Options::spin
};
std::string_view name_of(SpinSource source);  // "default", "kept", "measured", "user"
// kInvalidArgument for a name that is none.
Result<SpinSource> spin_source_named(std::string_view name);

// How long waits spin before they sleep, and who said so.
struct SpinInUse {
  Nanos spin = fabric::Options().spin;
  SpinSource source = SpinSource::kDefault;

  std::string to_text() const;  // "50 us (default)"
  friend bool operator==(const SpinInUse&, const SpinInUse&) = default;
};

// What goes into Options::spin if the user names a spin: at most 10 ms. One that is the default
// would be taken for none, and is made a nanosecond longer.
Nanos spin_of_user(double microseconds);

// Gives a device the spin that is kept for the paths of its channels, unless the user has said it.
// For programs without mailboxes, which do this by themselves. Not thread-safe.
class WaitSpin {
 public:
  // Where tunings are kept. Empty: TuningCache::default_folder().
  explicit WaitSpin(std::string folder = {}) : folder_(std::move(folder)) {}

  // A channel of the device that is waited for. A wait may be for any of the peers, so the longest
  // spin of all paths is used. Reads a file for each path that is new; what cannot be read is as if
  // it were not there, with a line in the log.
  void add(fabric::Device& device, const fabric::Channel& channel);
  // Of the device that was given last.
  SpinInUse now() const { return now_; }

 private:
  const std::string folder_;
  std::map<std::string, SpinInUse> paths_;
  SpinInUse now_;
};

}  // namespace ferry::mail
