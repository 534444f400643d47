#pragma once

#include <string_view>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/fabric/options.h"

namespace ferry::fabric {

// Judges one peer by what is heard of it. A process that ends is told by the kernel and is nothing
// to judge; what is left is a peer that says nothing: because it is stopped or starved, or because
// its host is gone. The caller brings the time, so this class has no clock. Not thread-safe.
class PeerWatch {
 public:
  struct Limits {
    Nanos silent;     // after which the peer is named as silent
    Nanos host_gone;  // without an acknowledgement by the kernel of its host
    Nanos give_up;    // of silence, though its host acknowledges
    Nanos ping;       // between two questions whether it is there

    static Limits of(const Options& options);
  };
  enum class Verdict {
    kNothingNew,
    kSilent,    // said once, when the silence has lasted for Limits::silent
    kSpeaks,    // said once, after kSilent
    kHostGone,  // the session is over
    kGiveUp,    // the session is over
  };

  explicit PeerWatch(const Limits& limits) : limits_(limits) {}

  // Something came from the peer's process.
  void hear() { heard_ = true; }
  // How much of the gap between two looks this process could have heard its peers in. A long gap
  // means that the process was itself stopped, or got no processor.
  static Nanos awake_in(Nanos gap);
  // Whether it pays to ask the kernel, before the next look, about acknowledgements and about bytes
  // that have come and are not read. Always so before a look that gives the peer up.
  bool doubts(Nanos awake) const { return silence_ + awake >= limits_.ping * 2; }
  // `awake` is how long this process could have heard the peer since the last look: time in which
  // it was stopped itself is none. `acknowledged`: the kernel of the peer's host has taken bytes
  // of ours since the last look, or none wait.
  Verdict look(Nanos awake, bool acknowledged);
  bool ping_is_due(Nanos awake);

  // Since the peer was last heard.
  Nanos silence() const { return silence_; }
  // The silence that kSpeaks has ended.
  Nanos ended_silence() const { return ended_silence_; }
  Nanos unacknowledged() const { return unacknowledged_; }
  // Whether it is the process alone that is silent. An acknowledgement that is on its way is none
  // that is missing.
  bool host_answers() const { return unacknowledged_ * 3 < silence_; }
  bool silent() const { return silent_; }

 private:
  const Limits limits_;
  bool heard_ = false;
  bool silent_ = false;
  Nanos silence_{0};
  Nanos ended_silence_{0};
  Nanos unacknowledged_{0};
  Nanos since_ping_{0};
};

// What operations of a process end with that the peer has given up meanwhile.
Error given_up_by(std::string_view peer, Nanos silence);

}  // namespace ferry::fabric
