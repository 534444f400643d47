#include <algorithm>
#include <chrono>

#include "ferry/ps/worker/waiter_internal.h"

namespace ferry::ps {
namespace {

// Channels that have ended wake nobody.
constexpr std::chrono::milliseconds kLookAtChannels{100};

}  // namespace

Status Waiter::notice_changes(Newcomers newcomers, Deadline deadline) {
  FERRY_TRY(members_.check_job_goes_on());
  FERRY_TRY(members_.refresh_view(newcomers, deadline));
  log_.announce(members_.newest_attempt());
  return {};
}

Result<WaitOutcome> Waiter::wait(InlineFunction<bool()>& ready, Newcomers newcomers,
                                 Deadline deadline, const char* what) {
  return wait(ready, InRestart::kNo, newcomers, deadline, what);
}

Status Waiter::wait_in_restart(InlineFunction<bool()>& ready, Deadline deadline, const char* what) {
  FERRY_TRY(wait(ready, InRestart::kYes, Newcomers::kLater, deadline, what));
  return {};
}

Result<WaitOutcome> Waiter::wait(InlineFunction<bool()>& ready, InRestart in_restart,
                                 Newcomers newcomers, Deadline deadline, const char* what) {
  for (;;) {
    if (ready()) return WaitOutcome::kReady;
    FERRY_TRY(notice_changes(newcomers, deadline));
    if (in_restart == InRestart::kNo && log_.is_restart_due()) return WaitOutcome::kRestart;
    if (ready()) return WaitOutcome::kReady;
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "worker {} waited in vain for {}", context_.rank, what);
    const auto slice = std::min(deadline, Deadline::after(kLookAtChannels));
    // In a restart the attempt of some shards is later than the log's: that is no reason to wake.
    const auto attempt = in_restart == InRestart::kYes ? ~std::uint32_t{0} : log_.attempt();
    const auto changed = [this, attempt, &ready] {
      return ready() || members_.is_view_stale() || members_.has_later_attempt(attempt);
    };
    (void)context_.data->wait_until(changed, slice);
  }
}

}  // namespace ferry::ps
