#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "ferry/cli/common/sent_report.h"
#include "ferry/cli/common/svg.h"
#include "ferry/cli/step_bound.h"
#include "ferry/train/job.h"

namespace ferry::cli {

// How a job learnt, by the time since its first step: the mean of all workers over a few steps.
class LearningCurve {
 public:
  void add(const train::StepReport& step);
  // The rest, fewer than are usually taken together.
  void end() {
    if (steps_ > 0) finish();
  }
  // Empty where steps say none.
  const std::vector<Point>& losses() const { return losses_; }
  const std::vector<Point>& accuracies() const { return accuracies_; }

 private:
  static constexpr int kSmooth = 40;
  void finish();
  int steps_ = 0;
  double seconds_ = 0;
  double loss_ = 0;
  double accuracy_ = 0;
  bool has_loss_ = false;
  bool has_accuracy_ = false;
  std::vector<Point> losses_;
  std::vector<Point> accuracies_;
};

// A job from its first step to its last.
struct TrainRound {
  std::uint64_t turn = 0;   // how many jobs had ended before it, over whatever transport
  double seconds = 0;       // from the first step's begin to the last one's end
  double step_seconds = 0;  // once the warm steps are over
};

// A job over one transport, as often as it was run. All rounds are the same job: report, curve and
// test are those of the first.
struct Trained {
  train::JobOptions options;
  train::JobReport report;
  LearningCurve curve = {};
  std::optional<train::Tested> tested = {};  // if it was asked for
  std::vector<TrainRound> rounds = {};
  std::optional<StepBound> bound = {};  // if transports are compared

  std::optional<double> accuracy() const { return tested ? tested->accuracy : std::nullopt; }
  bool text() const { return report.feeds == models::Feeds::kText; }
  // Of text one says how many letters the model still hesitates between: in the last step, and in
  // the test.
  std::optional<double> perplexity() const;
  std::optional<double> test_perplexity() const;
  // By round.
  std::vector<double> step_seconds() const;
  // Medians of the rounds.
  double seconds() const;
  double samples_per_second() const;
  std::uint64_t reorders() const;
  SentFigures sent() const { return sent_by(report.tasks); }
};

// "ferry, shm"; "grpc, tcp".
std::string path_text(const train::JobOptions& options);

// A line for each transport but the first: how many times as fast the first is.
std::vector<std::string> comparison_lines(const std::vector<Trained>& jobs);
void print_trained(const std::vector<Trained>& jobs, std::FILE* out);
// When so many per cent of the test set were right for the first time.
void print_goal(const std::vector<Trained>& jobs, double goal, std::FILE* out);
Status write_trained(const std::string& path, const std::vector<Trained>& jobs);
std::string trained_html(const std::vector<Trained>& jobs);

// What of a job is not real (train::made_up), a line for each sentence.
void print_made_up(const std::vector<std::string>& sentences, std::FILE* out);

}  // namespace ferry::cli
