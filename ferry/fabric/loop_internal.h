#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/base/waiting.h"
#include "ferry/fabric/fence_internal.h"
#include "ferry/fabric/loop_sources_internal.h"
#include "ferry/fabric/sleepers_internal.h"
#include "ferry/fabric/types.h"
#include "ferry/fabric/watch_table_internal.h"

struct epoll_event;

namespace ferry::fabric {

// Whether spinning has paid lately, for the waiters of one loop. A waiter whose spins are in vain,
// because what it waits for takes long, takes the core from those who would bring it: then the next
// waiters sleep at once, until a sleep was as short as a spin. Thread-safe; a lost update costs one
// wait.
class SpinHabit {
 public:
  bool sleeps_at_once() const {
    return vain_.load(std::memory_order_relaxed) >= waiting::kVainSpins;
  }
  // A wait is over. `slept_at`: when its first sleep began; 0: it did not sleep. `brief`: it did
  // not spin.
  void learn(std::int64_t slept_at, bool brief, Nanos spin);

 private:
  std::atomic<unsigned> vain_{0};  // waits in a row that were much longer than a spin
};

// A completion queue in the broad sense: a set of sources of work, one poller thread, and the right
// to make progress (a token) that belongs to whoever waits.
//
// Thread-safe, except that the *_on_loop methods of sources are called by the token's holder only.
class Loop {
 public:
  using Source = LoopSource;

  // A waiter spins for `spin` before it sleeps. A loop that `watches` has its work behind watched
  // fds only: spinning then means asking them, and the poller spins too after it has found work.
  static Result<std::unique_ptr<Loop>> open(std::string name, Nanos spin, bool watches = false);
  // For waits that begin from now on.
  void set_spin(Nanos spin) { spin_ns_.store(spin.count(), std::memory_order_relaxed); }
  ~Loop();

  // After remove() has returned, no method of the source is running or will run.
  void add(Source* source);
  void remove(Source* source);
  // Wakes the loop and calls source->ready_on_loop() when fd is ready for `epoll_events`. watch()
  // again changes the events. Any thread; also from within the source's own methods.
  Status watch(int fd, std::uint32_t epoll_events, Source* source, std::uint64_t cookie) {
    return watches_.add(fd, epoll_events, source, cookie, name_);
  }
  void unwatch(int fd) { watches_.remove(fd); }

  // Runs `function` as the token's holder, waiting for the token if need be. Not from within a
  // source's method.
  template <class F>
  auto with_token(F&& function) FERRY_NO_THREAD_SAFETY_ANALYSIS {
    token_.take();
    struct Giver {
      Loop* loop;
      ~Giver() { loop->token_.give_back(); }
    } giver{this};
    return function();
  }

  // One bounded burst of progress if nobody else is at it. Returns how much was done.
  int try_progress();

  // Makes progress until ready(), a plain check without side effects, is true; false when the
  // deadline passes first. Spins and sleeps as `mode` says; for `spin`, if it is given.
  bool wait_until(InlineFunction<bool()> ready, Deadline deadline, WaitMode mode,
                  std::optional<Nanos> spin = {});

  // For a thread that sleeps in an event loop of its own, with descriptor() in its set. arm() says
  // that it is about to, makes a burst of progress, and is false if that found work: then nothing
  // is armed. Until disarm() peers ring as for any sleeper, and the poller stays away.
  // handle_ready() is for when the descriptor was readable: makes progress, and it is not until
  // something comes.
  int descriptor() const { return epoll_.get(); }
  bool arm();
  void disarm() { sleepers_.retract_guest(); }
  void handle_ready() { wait_for_events(Nanos(0), true); }

  // A user thread has just tried to make progress here: the poller stays away for a while.
  void note_user() {
    users_.store(users_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // For whoever leaves work to those who make progress here: whether one of them sleeps, or is
  // about to without having seen it. They say that they sleep, then arm their sources.
  bool anybody_asleep() const { return sleepers_.anybody_asleep(); }

  // Whether waiters ask the watched fds at every iteration, for sources with too many of them to
  // try. With the token.
  void ask_always_on_loop(bool on) { ask_always_.store(on, std::memory_order_relaxed); }
  // Whether an iteration of a waiter is a system call, so that it is not to spin for long where
  // others need the core. With the token.
  void costly_iterations_on_loop(bool on) { costly_.store(on, std::memory_order_relaxed); }

  // Wakes sleepers so that they look again: for whoever changed what they wait for elsewhere.
  void notify() { sleepers_.notify(); }
  // The eventfd that remote writers write to when Bell says somebody sleeps.
  int event_fd() const { return sleepers_.event_fd(); }
  // Where this loop says who sleeps: a bell in shared memory, or nullptr for a private one. Before
  // the first lane. A sleeper may still be at the bell that was used before, so the loop keeps a
  // share in its memory.
  void use_bell(Bell* bell, std::shared_ptr<const void> memory = nullptr);
  bool on_poller() const { return std::this_thread::get_id() == poller_.get_id(); }
  // Threads that wait here also make progress on `other`, when nobody has for a while: its own
  // poller may get no processor behind them. Before the first wait; `other` outlives all of them.
  void stand_in_for(Loop* other) { starving_ = other; }
  // One burst of progress and a tick, if nobody has ticked for a while, or nobody has seen to
  // events of watched fds, and nobody else is at it.
  void help_if_starved(std::int64_t now);
  // While tell_others(true) is in force, work done here also wakes the sleepers of `other`.
  void tell_also(Loop* other) { other_ = other; }
  void tell_others(bool on);

 private:
  Loop() = default;
  // The poller thread's loop.
  void poller();
  // Stays out of the way of user threads and guests, which make the progress, for a moment. False:
  // there are none, and it is the poller's.
  bool leave_to_users(std::uint32_t& users_before);
  // Looks for expired operations, if nobody has for a while and nobody else is at it.
  void tick(std::int64_t now);
  // Wakes whoever may wait for what was just completed.
  void after_progress(bool by_sleeper = false);
  // Has the sources ask for wake-ups; false if work came meanwhile, which is done.
  bool nothing_to_do(bool poller);
  // How long a sleep may last: shorter while operations are pending, for their deadlines.
  Nanos longest_sleep(Nanos idle);
  // Sleeps in epoll, or on a futex if somebody sleeps there already, until something happens.
  void sleep_once(InlineFunction<bool()>& ready, Deadline deadline);
  // Hands events to their sources and makes progress; returns how much was done.
  int wait_for_events(Nanos at_most, bool by_sleeper = false);
  // Hands events to the sources that watch their descriptors.
  void handle_on_loop(std::span<const epoll_event> events);
  // One iteration of a spinning waiter.
  int work_now();
  // Spins and sleeps, as the mode says, until `ready` is true. False: the deadline came first.
  bool wait_here(InlineFunction<bool()>& ready, Deadline deadline, WaitMode mode, Nanos spin);
  Nanos spin() const { return Nanos(spin_ns_.load(std::memory_order_relaxed)); }
  // The poller spins for the next question of a series.
  void linger();

  std::string name_;
  std::atomic<std::int64_t> spin_ns_{0};
  bool watches_only_ = false;
  std::atomic<bool> ask_always_{false};
  std::atomic<bool> costly_{false};
  SpinHabit habit_;
  Fd epoll_;
  WatchTable watches_{epoll_};
  Sleepers sleepers_;
  Token token_;
  LoopSources sources_;  // the token's holder's
  std::atomic<std::int64_t> last_tick_seen_{0};
  std::atomic<std::int64_t> last_look_{0};  // when all events so far were seen to
  std::atomic<std::uint32_t> users_{0};     // goes up while user threads make progress here
  std::atomic<std::uint32_t> waiters_{0};   // user threads inside wait_until()
  Loop* other_ = nullptr;
  Loop* starving_ = nullptr;
  std::atomic<std::uint32_t> tell_others_{0};
  std::atomic<bool> stop_{false};
  std::thread poller_;
};

}  // namespace ferry::fabric
