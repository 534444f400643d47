#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/types.h"

namespace ferry::fabric {

// Words that other processes look at to learn whether somebody here sleeps. In shared memory when
// the shm provider is on. Written by this process only.
struct alignas(64) Bell {
  std::atomic<std::uint32_t> flag_sleepers{0};  // threads asleep until a flag or completion comes
  std::atomic<std::uint32_t> any_sleepers{0};   // the same plus the idle poller: for messages
};

// Orders a store before a later load against a thread that calls heavy_fence(): on the fast side
// this is only a compiler barrier where the kernel has expedited membarrier, else a full fence.
extern const bool kHasMembarrier;
inline void light_fence() {
  if (kHasMembarrier) {
    asm volatile("" ::: "memory");
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
// The slow side of the pair: makes every light_fence() of every registered process a full one.
void heavy_fence();

// A completion queue in the broad sense: a set of sources of work, one poller thread, and the right
// to make progress (a token) that belongs to whoever waits.
//
// Thread-safe, except that the *_on_loop methods of sources are called by the token's holder only.
class Loop {
 public:
  // Something that makes progress: the sockets of the tcp provider on this loop, a completion
  // queue, the rings of the shm provider.
  class Source {
   public:
    virtual ~Source() = default;
    // Does what can be done now without blocking; returns how much was done (0: nothing).
    virtual int progress_on_loop() = 0;
    // The loop is about to sleep: ask for a wake-up through a watched fd (ibv_req_notify_cq and the
    // like). The loop calls progress_on_loop() once more afterwards, then sleeps. If it is the
    // poller that sleeps, the end of an operation that nobody is told of needs no wake-up: whoever
    // asks for it makes progress.
    virtual void arm_on_loop(bool poller) { (void)poller; }
    // A watched fd is ready. Level-triggered; `cookie` is what watch() got.
    virtual void ready_on_loop(std::uint64_t cookie, std::uint32_t epoll_events) {
      (void)cookie, (void)epoll_events;
    }
    // About every 10 ms while has_pending() is true: look for expired and cancelled operations.
    virtual void tick_on_loop(std::int64_t now) { (void)now; }
    // Whether ticks are wanted. Any thread.
    virtual bool has_pending() const { return false; }
  };

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
  Status watch(int fd, std::uint32_t epoll_events, Source* source, std::uint64_t cookie);
  void unwatch(int fd);

  // Runs `function` as the token's holder, waiting for the token if need be. Not from within a
  // source's method.
  template <class F>
  auto with_token(F&& function) FERRY_NO_THREAD_SAFETY_ANALYSIS {
    take_token();
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
  void disarm();
  void handle_ready() { wait_for_events(Nanos(0), true); }

  // A user thread has just tried to make progress here: the poller stays away for a while.
  void note_user() {
    users_.store(users_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // For whoever leaves work to those who make progress here: whether one of them sleeps, or is
  // about to without having seen it. They say that they sleep, then arm their sources.
  bool anybody_asleep() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return bell_.load(std::memory_order_relaxed)->any_sleepers.load(std::memory_order_relaxed) != 0;
  }

  // Whether waiters ask the watched fds at every iteration, for sources with too many of them to
  // try. With the token.
  void ask_always_on_loop(bool on) { ask_always_.store(on, std::memory_order_relaxed); }
  // Whether an iteration of a waiter is a system call, so that it is not to spin for long where
  // others need the core. With the token.
  void costly_iterations_on_loop(bool on) { costly_.store(on, std::memory_order_relaxed); }

  // Wakes sleepers so that they look again: for whoever changed what they wait for elsewhere.
  void notify();
  // The eventfd that remote writers write to when Bell says somebody sleeps.
  int event_fd() const { return event_.get(); }
  // Where this loop says who sleeps: a bell in shared memory, or nullptr for a private one. Before
  // the first lane. A sleeper may still be at the bell that was used before, so the loop keeps a
  // share in its memory.
  void use_bell(Bell* bell, std::shared_ptr<const void> memory = nullptr);
  const std::string& name() const { return name_; }
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
  void poller();
  bool leave_to_users(std::uint32_t& users_before);
  void take_token() FERRY_ACQUIRE(token_) FERRY_NO_THREAD_SAFETY_ANALYSIS;
  int progress_holding_token();
  void tick_holding_token(std::int64_t now);
  void tick(std::int64_t now);
  void after_progress(bool by_sleeper = false);
  void wake_futex_sleepers();
  void ring();
  bool nothing_to_do(bool poller);
  bool pending();
  void sleep_once(InlineFunction<bool()>& ready, Deadline deadline);
  int wait_for_events(Nanos at_most, bool by_sleeper = false);
  int work_now();
  bool wait_here(InlineFunction<bool()>& ready, Deadline deadline, WaitMode mode, Nanos spin);
  void learn(std::int64_t slept, bool brief);
  Nanos spin() const { return Nanos(spin_ns_.load(std::memory_order_relaxed)); }
  void linger();
  void handle(std::uint64_t which, std::uint32_t events);

  struct Watch;
  std::string name_;
  std::atomic<std::int64_t> spin_ns_{0};
  bool watches_only_ = false;
  std::atomic<bool> ask_always_{false};
  std::atomic<bool> costly_{false};
  std::atomic<unsigned> vain_spins_{0};  // waits in a row that were much longer than a spin
  Fd epoll_;
  Fd event_;
  Bell private_bell_;
  std::atomic<Bell*> bell_{&private_bell_};
  std::vector<std::shared_ptr<const void>> bell_memory_;
  Token token_;
  std::vector<Source*> sources_;  // changed and walked by the token's holder only
  std::int64_t last_tick_ = 0;    // the token's holder's
  std::atomic<std::int64_t> last_tick_seen_{0};
  std::atomic<std::int64_t> last_look_{0};  // when all events so far were seen to
  Mutex watch_lock_;
  std::vector<std::unique_ptr<Watch>> watches_ FERRY_GUARDED_BY(watch_lock_);  // by fd
  std::uint32_t last_watch_ FERRY_GUARDED_BY(watch_lock_) = 0;
  std::atomic<std::uint32_t> epoll_sleepers_{0};  // inside epoll_wait: a user thread, a guest
  std::atomic<bool> sleeper_taken_{false};
  std::atomic<std::uint32_t> guests_{0};  // that sleep elsewhere, on descriptor()
  std::atomic<std::uint32_t> futex_sleepers_{0};
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> users_{0};    // goes up while user threads make progress here
  std::atomic<std::uint32_t> waiters_{0};  // user threads inside wait_until()
  Loop* other_ = nullptr;
  Loop* starving_ = nullptr;
  std::atomic<std::uint32_t> tell_others_{0};
  std::atomic<bool> stop_{false};
  std::thread poller_;
};

}  // namespace ferry::fabric
