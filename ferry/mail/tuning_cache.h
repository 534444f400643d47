#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/fabric/channel.h"
#include "ferry/mail/tuning.h"

namespace ferry::mail {

// A path that values are kept for: two hosts, in order, and a provider. Plain data.
struct TuningPath {
  std::string host;
  std::string other_host;  // the same for processes of one machine
  std::string provider;

  static TuningPath between(std::string host, std::string other, std::string provider);
  static TuningPath of(const fabric::Channel& channel);
  friend bool operator==(const TuningPath&, const TuningPath&) = default;
};

// What was found for a path, and when.
struct TuningEntry {
  TuningPath path;
  Calibration found;
  std::string when;   // "2026-01-31T12:00:00Z"
  std::string where;  // the name of the machine that wrote it

  // As the text of a file; kDataLoss for text that is none, of another version, or out of bounds.
  std::string to_text() const;
  static Result<TuningEntry> from_text(std::string_view text);
};

// The files of one folder. Any number of threads and processes may use it at once: a file appears
// whole or not at all, and the last one wins. What cannot be read is as if it were not there, with
// a line in the log.
class TuningCache {
 public:
  // Where the user's caches are: $FERRY_TUNING, $XDG_CACHE_HOME/tensorferry or
  // ~/.cache/tensorferry. Empty if there is no such place, or FERRY_TUNING is "off".
  static std::string default_folder();

  // An empty folder: nothing is kept, nothing found.
  explicit TuningCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<TuningEntry> load(const TuningPath& path) const;
  // Makes the folder if need be.
  Status store(const TuningPath& path, const Calibration& found) const;
  std::vector<TuningEntry> list() const;
  // Removes the files of this provider, or all of them; how many there were.
  Result<int> forget(std::string_view provider = {}) const;
  // For whoever measures, so that calibrations of one host do not disturb each other. Never waits:
  // kUnavailable if somebody else has it. Given back when the descriptor is closed.
  Result<Fd> try_lock() const;

  const std::string& folder() const { return folder_; }

 private:
  std::string file_of(const TuningPath& path) const;
  Status make_folder() const;
  std::string folder_;
};

}  // namespace ferry::mail
