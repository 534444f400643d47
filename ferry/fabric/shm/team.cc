#include <sys/prctl.h>

#include "ferry/fabric/shm/team_internal.h"

namespace ferry::fabric::shm {

Team::Team(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Team::~Team() {
  {
    LockGuard<Mutex> guard(lock_);
    stop_ = true;
    wake_.notify_all();
  }
  for (auto& thread : threads_) thread.join();
}

Team::Help::Help(Team* team, std::atomic<std::uint64_t>& ticket, std::uint32_t generation,
                 const Share& share)
    : team_(team), ticket_(ticket), generation_(generation), share_(share) {
  if (team_ == nullptr) return;
  LockGuard<Mutex> guard(team_->lock_);
  if (team_->current_ != nullptr) {
    team_ = nullptr;
    return;
  }
  team_->current_ = this;
  ++team_->round_;
  team_->wake_.notify_all();
}

std::uint32_t Team::Help::end() {
  if (team_ == nullptr) return copied_;
  LockGuard<Mutex> guard(team_->lock_);
  team_->current_ = nullptr;
  while (users_ != 0) team_->left_.wait(team_->lock_);
  team_ = nullptr;
  return copied_;
}

void Team::work() {
  ::prctl(PR_SET_NAME, "ferry-copy");
  std::uint64_t seen = 0;
  LockGuard<Mutex> guard(lock_);
  while (!stop_) {
    if (current_ == nullptr || seen == round_) {
      wake_.wait(lock_);
      continue;
    }
    seen = round_;
    Help* help = current_;
    ++help->users_;
    lock_.unlock();
    auto copied = copy_pieces(help->ticket_, help->generation_, help->share_, From::kBack);
    lock_.lock();
    help->copied_ += copied;
    if (--help->users_ == 0) left_.notify_all();
  }
}

}  // namespace ferry::fabric::shm
