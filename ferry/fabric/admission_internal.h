#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/counters.h"
#include "ferry/base/fd.h"
#include "ferry/base/log_limit.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/types.h"

namespace ferry::fabric {

// How long a stranger that has begun a handshake keeps its place without a proof while others wait.
// Shrinks while strangers prove nothing, so that those who only take up room pass quickly, and
// grows with each proof, so that members who are merely slow are not turned away. Not thread-safe.
class TimeToProve {
 public:
  static constexpr std::int64_t kMostNs = 200'000'000;
  static constexpr std::int64_t kLeastNs = 50'000'000;
  std::int64_t ns() const { return ns_; }
  void turned_away() { ns_ = std::max(kLeastNs, ns_ - ns_ / 64); }
  void proved() { ns_ = std::min(kMostNs, ns_ + ns_ / 4); }

 private:
  std::int64_t ns_ = kMostNs;
};

// The listening socket of a device, and connections that are not authenticated yet. Strangers have
// a bounded number of places. When all are taken, a newcomer takes the place of the one that has
// stalled longest; when nobody stalls, it waits in the kernel's backlog. Whoever has proved that it
// knows the secret has a place of another kind, which strangers cannot take.
//
// The *_on_loop methods belong to the control loop, whose source the owner is.
class Admission {
 public:
  struct Joined {
    Fd socket;
    std::uint32_t number;  // that the session will have
    bootstrap::Handshake handshake;
  };
  struct Owner {
    const Options* options = nullptr;
    DeviceId id;
    const bootstrap::Secret* secret = nullptr;
    Counter* refused = nullptr;  // peers
    Loop* loop = nullptr;
    Loop::Source* source = nullptr;
    std::function<std::uint32_t()> next_number;
    bootstrap::Admit admit;
    std::function<void(Joined)> joined;
  };

  explicit Admission(Owner owner);

  Status listen();
  const std::string& endpoint() const { return endpoint_; }
  // Newcomers are taken from now on, and are told what the device says of itself.
  Status start(std::vector<std::byte> introduction);
  void close_on_loop();

  // Whether the descriptor is the listener or a newcomer's; then it was seen to.
  bool ready_on_loop(int fd);
  void tick_on_loop(std::int64_t now);
  // Whether newcomers wait until somebody stalls. Any thread.
  bool is_full() const { return full_.load(std::memory_order_relaxed); }

 private:
  // silent -> opened -> proven -> joined; from each the newcomer may leave.
  enum class Stage : std::uint8_t { kSilent, kOpened, kProven };
  struct Newcomer {
    Fd socket;
    std::uint32_t number = 0;
    std::optional<bootstrap::Handshake> handshake;  // from its first byte on
    Stage stage = Stage::kSilent;
    std::int64_t since = 0;  // when it came to this stage
    Deadline deadline;
  };
  using Newcomers = std::map<int, Newcomer>;

  // The listener is ready: takes a bounded number of newcomers, or pauses when there is no place.
  void accept_on_loop();
  // Turns the newcomer away that has stalled longest. False: nobody has stalled for long enough;
  // with `at_once` any time is long enough.
  bool make_room_on_loop(bool at_once);
  // Stops taking newcomers: they wait in the backlog until somebody leaves, or until the next tick.
  void pause_on_loop();
  // Ends the pause, if there is one.
  void resume_on_loop();
  // Gives a place to a connection that was accepted, and begins with what it has sent.
  void welcome_on_loop(Fd socket);
  // Goes on with a newcomer's handshake. One that is done is handed to the owner; one that fails is
  // refused.
  void advance_on_loop(int fd);
  // Moves what bytes there are; the last words of a refusal are sent as far as the socket takes
  // them.
  Status step_on_loop(Newcomer& newcomer);
  // Opens the handshake of a newcomer that has sent its first byte, and chooses its session's
  // number.
  Status begin_handshake(Newcomer& newcomer);
  // Feeds the newcomer's bytes to its handshake, and notes the stage that it comes to.
  Status consume(Newcomer& newcomer, std::span<const std::byte> bytes);
  // The newcomer comes to this stage now, unless it is there.
  void change_stage(Newcomer& newcomer, Stage stage);
  // The newcomer that has been at this stage since before the given time, and for longer than
  // others.
  Newcomers::iterator longest_at(Stage stage, std::int64_t before);
  // Removes a newcomer to which this device has no time to listen; one that has begun is told so.
  void turn_away_on_loop(Newcomers::iterator newcomer);
  // Forgets a newcomer, whose place is free then.
  void remove_on_loop(Newcomers::iterator newcomer);
  // Has the owner's loop watch a descriptor.
  Status watch(int fd, std::uint32_t events);

  const Owner owner_;
  std::size_t places_ = 0;  // of strangers
  Fd listener_;
  std::string endpoint_;
  std::vector<std::byte> introduction_;
  Newcomers newcomers_;
  std::size_t proven_ = 0;  // of newcomers_
  TimeToProve time_to_prove_;
  std::atomic<bool> full_{false};
  LogLimit refused_{"refused newcomers"};
};

}  // namespace ferry::fabric
