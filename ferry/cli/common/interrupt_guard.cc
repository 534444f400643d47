#include "ferry/cli/common/interrupt_guard.h"

#include <signal.h>
#include <sys/prctl.h>

#include <array>
#include <csignal>

namespace ferry::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;
constexpr std::array<int, 5> kGuarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
std::array<struct sigaction, kGuarded.size()> old_actions;

void on_interrupt(int signal) { interrupt_seen = signal; }

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (std::size_t i = 0; i < kGuarded.size(); ++i) {
    struct sigaction action = {};
    // No SA_RESTART: a blocked call shall end.
    action.sa_handler = kGuarded[i] == SIGPIPE ? SIG_IGN : on_interrupt;
    sigaction(kGuarded[i], &action, &old_actions[i]);
    // nohup, and shells for what runs in the background, want these ignored.
    const bool may_be_ignored = kGuarded[i] == SIGHUP || kGuarded[i] == SIGQUIT;
    if (may_be_ignored && old_actions[i].sa_handler == SIG_IGN)
      sigaction(kGuarded[i], &old_actions[i], nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  interrupt_seen = 0;
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  for (std::size_t i = 0; i < kGuarded.size(); ++i)
    sigaction(kGuarded[i], &old_actions[i], nullptr);
}

bool InterruptGuard::interrupted() { return interrupt_seen != 0; }

int InterruptGuard::exit_code() { return interrupt_seen == 0 ? 0 : 128 + interrupt_seen; }

}  // namespace ferry::cli
