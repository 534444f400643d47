#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "ferry/train/task_internal.h"

namespace ferry::train {
namespace {

// What the tasks of one process tell each other. Thread-safe.
class Board {
 public:
  Board(std::size_t tasks, const OnStep& on_step) : tasks_(tasks), on_step_(on_step) {}

  void put(const std::string& task, const std::string& endpoint) {
    const std::lock_guard hold(mutex_);
    endpoints_[task] = endpoint;
    changed_.notify_all();
  }
  Result<std::map<std::string, std::string>> all() {
    std::unique_lock hold(mutex_);
    const bool there = changed_.wait_for(hold, std::chrono::seconds(60),
                                         [this] { return endpoints_.size() == tasks_ || failed_; });
    if (!there || failed_) return fail(Code::kUnavailable, "another task did not come");
    return endpoints_;
  }
  void step(const StepReport& step) {
    const std::lock_guard hold(mutex_);
    note_step(report_, step, on_step_);
  }
  void end(const TaskReport& report) {
    const std::lock_guard hold(mutex_);
    report_.tasks.push_back(report);
  }
  void give_up() {
    const std::lock_guard hold(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  JobReport take_report() { return std::move(report_); }

 private:
  const std::size_t tasks_;
  const OnStep& on_step_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> endpoints_;
  bool failed_ = false;
  JobReport report_;
};

class BoardLine final : public TaskLine {
 public:
  BoardLine(Board& board, std::string task, const std::function<bool()>& stop)
      : board_(board), task_(std::move(task)), stop_(stop) {}
  Status say_endpoint(const std::string& endpoint) override {
    board_.put(task_, endpoint);
    return {};
  }
  Result<std::map<std::string, std::string>> hear_endpoints() override { return board_.all(); }
  Status say_step(const StepReport& step) override {
    board_.step(step);
    if (stop_ && stop_()) return fail(Code::kCancelled, "the job was stopped");
    return {};
  }
  Status say_end(const TaskReport& report) override {
    board_.end(report);
    return {};
  }

 private:
  Board& board_;
  const std::string task_;
  const std::function<bool()>& stop_;
};

}  // namespace

void note_step(JobReport& report, const StepReport& step, const OnStep& on_step) {
  if (report.last.size() <= step.worker) report.last.resize(step.worker + 1);
  report.last[step.worker] = step;
  report.seconds = std::max(report.seconds, step.seconds);
  if (on_step) on_step(step);
}

Result<JobReport> run_threads(const std::vector<TaskRun>& runs, const OnStep& on_step,
                              const std::function<bool()>& stop) {
  Board board(runs.size(), on_step);
  std::vector<Status> ended(runs.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t index = 0; index < runs.size(); ++index)
      threads.emplace_back([&, index] {
        BoardLine line(board, runs[index].task, stop);
        ended[index] = run_task(runs[index], line);
        if (!ended[index]) board.give_up();
      });
  }
  // Those that were stopped, before those that miss them.
  for (const auto& end : ended)
    if (!end && end.error().code() == Code::kCancelled) return tl::unexpected(end.error());
  for (std::size_t index = 0; index < runs.size(); ++index)
    if (!ended[index])
      return fail(ended[index].error().code(), "{}: {}", runs[index].task,
                  ended[index].error().message());
  return board.take_report();
}

}  // namespace ferry::train
