#include <algorithm>

#include "ferry/fabric/reconnector_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

namespace {

constexpr std::chrono::milliseconds kLookAgain(50);  // whether a silent peer speaks

// A slow host always has time for one long try.
ReconnectQueue<Session>::Limits limits_of_reconnecting(const Options& options) {
  const auto scaled = [&](std::chrono::seconds span) {
    return std::chrono::duration_cast<Nanos>(span * options.patience);
  };
  const auto longest = scaled(std::chrono::seconds(10));
  return {.first_try = scaled(std::chrono::seconds(1)),
          .longest_try = longest,
          .pause = kLookAgain,
          .total = std::max(options.give_up, longest)};
}

}  // namespace

Reconnector::Reconnector(const Options& options) : queue_(limits_of_reconnecting(options)) {}

Reconnector::~Reconnector() { stop(); }

void Reconnector::stop() {
  std::thread thread;
  {
    LockGuard<Mutex> guard(lock_);
    stop_ = true;
    wake_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Reconnector::add(const std::shared_ptr<Session>& session, std::uint32_t lane) {
  LockGuard<Mutex> guard(lock_);
  if (stop_) return;
  queue_.add(session, lane);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  wake_.notify_all();
}

std::optional<Reconnector::Queue::Try> Reconnector::next() {
  LockGuard<Mutex> guard(lock_);
  while (!stop_) {
    if (auto attempt = queue_.next(now_ns())) return attempt;
    if (queue_.empty()) {
      wake_.wait(lock_);
    } else {
      wake_.wait_for(lock_, kLookAgain);
    }
  }
  return std::nullopt;
}

void Reconnector::work() {
  id_.store(std::this_thread::get_id());
  while (auto attempt = next()) {
    const auto began = now_ns();
    finish(*attempt,
           attempt->session->reconnect_lane(attempt->lane, Deadline::after(attempt->limit)), began);
  }
}

void Reconnector::finish(const Queue::Try& attempt, const Status& status, std::int64_t began) {
  const auto ended = now_ns();
  LockGuard<Mutex> guard(lock_);
  if (status) return queue_.reconnected(attempt);
  // A peer that is late is slow, and not lost before it is given up.
  if (status.error().code() == Code::kDeadlineExceeded &&
      queue_.failed(attempt, ended, Nanos(ended - began)))
    return;
  queue_.drop(attempt);
  if (attempt.session->alive())
    attempt.session->peer_lost(fail(Code::kUnavailable,
                                    "lane {} to peer {} cannot be connected anew: {}", attempt.lane,
                                    attempt.session->identity().endpoint, status.error().message())
                                   .value());
}

}  // namespace ferry::fabric
