#include "ferry/cli/train_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

namespace ferry::cli {
namespace {

bool reads_text(const train::JobOptions& options) {
  const auto model = models::make_model(options.model, {.batch = options.batch});
  return model && !options.emulate && model->feeds == models::Feeds::kText;
}

}  // namespace

TrainProgress::TrainProgress(const train::JobOptions& options, std::FILE* out)
    : options_(options),
      out_(out),
      on_terminal_(isatty(fileno(out)) != 0),
      reads_text_(reads_text(options)) {}

void TrainProgress::operator()(const train::StepReport& step) {
  const bool last = ++seen_ == options_.steps;
  const auto every = on_terminal_ ? 0.2 : 5.0;
  if (!last && step.seconds < next_) return;
  next_ = step.seconds + every;
  const auto rate = static_cast<double>(seen_ * options_.workers) *
                    static_cast<double>(options_.batch) / step.seconds;
  const auto accuracy =
      step.accuracy ? fmt::format("  accuracy {:5.1f} %", *step.accuracy * 100) : "";
  const auto loss = step.loss ? fmt::format("  loss {:.4f}", *step.loss) : "";
  const auto perplexity =
      reads_text_ && step.loss ? fmt::format("  perplexity {:.2f}", std::exp(*step.loss)) : "";
  fmt::print(out_, "{}step {:>6}{}{}{}  {:.0f} samples/s{}", on_terminal_ ? "\r\033[K" : "",
             step.step, loss, perplexity, accuracy, rate, on_terminal_ && !last ? "" : "\n");
  std::fflush(out_);
}

}  // namespace ferry::cli
