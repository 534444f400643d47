#include <algorithm>
#include <utility>

#include "ferry/fabric/peer_watch_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::chrono::milliseconds kPing(600);
constexpr std::chrono::seconds kSilent(3);
constexpr std::chrono::seconds kHostGone(10);
// Looks come every 100 ms, or a little later where a poller has other things to do.
constexpr std::chrono::milliseconds kMostAwake(200);
}  // namespace

PeerWatch::Limits PeerWatch::Limits::of(const Options& options) {
  auto scaled = [&](Nanos span) {
    return std::chrono::duration_cast<Nanos>(span * options.patience);
  };
  // A short silence is heard by short questions only.
  return {.silent = scaled(kSilent),
          .host_gone = scaled(kHostGone),
          .give_up = options.give_up,
          .ping = std::min(scaled(kPing), options.give_up / 4)};
}

Nanos PeerWatch::awake_in(Nanos gap) { return std::min<Nanos>(gap, kMostAwake); }

PeerWatch::Verdict PeerWatch::look(Nanos awake, bool acknowledged) {
  if (std::exchange(heard_, false)) {
    ended_silence_ = silence_;
    silence_ = Nanos(0);
    unacknowledged_ = Nanos(0);
    return std::exchange(silent_, false) ? Verdict::kSpeaks : Verdict::kNothingNew;
  }
  silence_ += awake;
  unacknowledged_ = acknowledged ? Nanos(0) : unacknowledged_ + awake;
  if (silence_ >= limits_.give_up) return Verdict::kGiveUp;
  if (unacknowledged_ >= limits_.host_gone) return Verdict::kHostGone;
  if (silent_ || silence_ < limits_.silent) return Verdict::kNothingNew;
  silent_ = true;
  return Verdict::kSilent;
}

bool PeerWatch::ping_is_due(Nanos awake) {
  since_ping_ += awake;
  if (since_ping_ < limits_.ping) return false;
  since_ping_ = Nanos(0);
  return true;
}

Error given_up_by(std::string_view peer, Nanos silence) {
  return fail(Code::kUnavailable,
              "peer {} gave this process up after {:.1f} s of silence: it was stopped, or got no "
              "processor; connect again",
              peer, std::chrono::duration<double>(silence).count())
      .value();
}

}  // namespace ferry::fabric
