#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/storage/temporary_folder.h"
#include "ferry/train/child_internal.h"
#include "ferry/train/measure.h"
#include "ferry/train/talk_internal.h"
#include "ferry/train/task_internal.h"

namespace ferry::train {
namespace {

constexpr Nanos kEndpointPatience = std::chrono::seconds(120);

// The task's side of the talk.
class PipeLine final : public TaskLine {
 public:
  explicit PipeLine(Lines& lines) : lines_(lines) {}
  Status say_endpoint(const std::string& endpoint) override {
    return lines_.say(line_of_endpoint(endpoint));
  }
  Result<std::map<std::string, std::string>> hear_endpoints() override {
    return parse_endpoints(FERRY_TRY(lines_.hear(Deadline::after(kEndpointPatience))));
  }
  Status say_step(const StepReport& step) override { return lines_.say(line_of_step(step)); }
  Status say_end(const TaskReport& report) override { return lines_.say(line_of_end(report)); }

 private:
  Lines& lines_;
};

// Of a task whose maker is not a process of ours: it knows where the others are.
class HandLine final : public TaskLine {
 public:
  HandLine(const Places& places, const OnStep& on_step) : places_(places), on_step_(on_step) {}
  Status say_endpoint(const std::string&) override { return {}; }
  Result<std::map<std::string, std::string>> hear_endpoints() override { return places_; }
  Status say_step(const StepReport& step) override {
    if (on_step_) on_step_(step);
    return {};
  }
  Status say_end(const TaskReport& report) override {
    report_ = report;
    return {};
  }
  TaskReport take_report() { return std::move(report_); }

 private:
  const Places& places_;
  const OnStep& on_step_;
  TaskReport report_;
};

std::vector<std::string> names_of(const Places& places) {
  std::vector<std::string> names;
  for (const auto& [task, place] : places) names.push_back(task);
  return names;
}

// A folder that is gone with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    return ScratchFolder(FERRY_TRY(storage::make_temporary_folder("ferry-train")));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::set<std::string> tasks_of(const graph::Partition& partition) {
  std::set<std::string> tasks;
  for (const auto& part : partition.parts) tasks.insert(graph::process_of(part.task));
  return tasks;
}

std::set<std::string> variables_of(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.nodes())
    if (node.op->name == "Variable") names.insert(node.name);
  return names;
}

// The processes of a job, and what they say.
class Crew {
 public:
  Crew(const OnStep& on_step, const std::function<bool()>& stop) : on_step_(on_step), stop_(stop) {}

  Status start(const std::string& task, const std::function<int(Lines&)>& body) {
    members_.push_back({task, FERRY_TRY(Child::start(body)), false});
    return {};
  }

  Status work() {
    while (ended_ < members_.size()) {
      if (stop_ && stop_()) return fail(Code::kCancelled, "the job was stopped");
      std::vector<pollfd> looks;
      for (auto& member : members_)
        looks.push_back(
            {.fd = member.over ? -1 : member.child.lines().in(), .events = POLLIN, .revents = 0});
      constexpr int kLookMs = 100;
      (void)poll(looks.data(), looks.size(), kLookMs);
      for (auto& member : members_) {
        if (member.over) continue;
        const auto well = listen(member);
        if (well) continue;
        member.over = true;  // it has said all it has to say
        return cause_of(well.error());
      }
    }
    return {};
  }

  JobReport take_report() { return std::move(report_); }

 private:
  struct Member {
    std::string task;
    Child child;
    bool over = false;
  };

  // When one task fails, the others soon say that it is gone, and may be heard first.
  Status cause_of(Error error) {
    const auto patience = Deadline::after(std::chrono::seconds(1));
    while (error.code() == Code::kUnavailable && !patience.expired()) {
      for (auto& member : members_) {
        if (member.over) continue;
        const auto well = listen(member);
        if (!well && well.error().code() != Code::kUnavailable) return well;
        if (!well) member.over = true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return tl::unexpected(std::move(error));
  }

  Status listen(Member& member) {
    for (;;) {
      auto line = member.child.lines().hear_now();
      if (!line)
        return fail(Code::kAborted, "{} {} before its last step", member.task, member.child.wait());
      if (!*line) return {};
      const auto said = FERRY_TRY(parse_said(**line));
      FERRY_TRY(take_in(member, said));
      if (member.over) return {};
    }
  }

  Status take_in(Member& member, const Said& said) {
    if (!said.error.empty())
      return fail(said.gone ? Code::kUnavailable : Code::kAborted, "{}: {}", member.task,
                  said.error);
    if (!said.endpoint.empty()) {
      endpoints_[member.task] = said.endpoint;
      if (endpoints_.size() == members_.size())
        for (auto& each : members_)
          FERRY_TRY(each.child.lines().say(line_of_endpoints(endpoints_)));
    }
    if (said.step) note_step(report_, *said.step, on_step_);
    if (said.end) {
      report_.tasks.push_back(*said.end);
      member.over = true;
      ++ended_;
    }
    return {};
  }

  const OnStep& on_step_;
  const std::function<bool()>& stop_;
  std::vector<Member> members_;
  std::map<std::string, std::string> endpoints_;
  std::size_t ended_ = 0;
  JobReport report_;
};

// Enters the network namespace that the options name for the task's host, if any. The process has
// one thread.
Status enter_namespace(const TaskRun& run) {
  const auto place = run.options.places.find(run.task);
  if (run.options.namespaces.empty() || place == run.options.places.end()) return {};
  const auto host = FERRY_TRY(bootstrap::Endpoint::parse(place->second)).host;
  const auto found = run.options.namespaces.find(host);
  if (found == run.options.namespaces.end()) return {};
  const auto path = "/run/netns/" + found->second;
  const Fd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space) return fail_errno(errno, "cannot open the network namespace {}", path);
  if (setns(space.get(), CLONE_NEWNET) != 0)
    return fail_errno(errno, "cannot enter the network namespace {}; it takes root", path);
  return {};
}

int be_task(const TaskRun& run, Lines& lines) {
  PipeLine line(lines);
  const auto entered = enter_namespace(run);
  const auto done = entered ? run_task(run, line) : entered;
  if (done) return 0;
  (void)lines.say(line_of_error(done.error()));
  return 1;
}

Result<JobReport> run_processes(const std::vector<TaskRun>& runs, const OnStep& on_step,
                                const std::function<bool()>& stop) {
  Crew crew(on_step, stop);
  for (const auto& run : runs)
    FERRY_TRY(crew.start(run.task, [&run](Lines& lines) { return be_task(run, lines); }));
  FERRY_TRY(crew.work());
  return crew.take_report();
}

Result<std::string> random_secret() {
  std::array<std::byte, 16> bytes;
  FERRY_TRY(bootstrap::random_bytes(bytes));
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

bool waits_by_library(const JobOptions& options) {
  return options.transport != Transport::kGrpc && options.transport != Transport::kGrpcFerry;
}

std::optional<mail::SpinInUse> longest_spin(const std::vector<TaskReport>& tasks, bool measured) {
  std::optional<mail::SpinInUse> longest;
  for (const auto& task : tasks)
    if (task.spin && (!longest || task.spin->spin > longest->spin)) longest = task.spin;
  if (measured && longest && longest->source == mail::SpinSource::kKept)
    longest->source = mail::SpinSource::kMeasured;
  return longest;
}

// The newest checkpoint, or step 0 with what the model brings along.
Result<storage::Checkpoint> begin_of(const JobOptions& options, const JobPlan& plan) {
  if (!options.resume) return storage::Checkpoint{.step = 0, .tensors = plan.model.initial};
  auto saved = FERRY_TRY(
      storage::CheckpointFolder(options.checkpoints).load_newest(variables_of(plan.program.graph)));
  for (const auto& node : plan.program.graph.nodes()) {
    if (node.op->name != "Variable") continue;
    const auto& value = saved.tensors.at(node.name);
    if (value.spec() != node.outputs[0])
      return fail(Code::kInvalidArgument,
                  "the checkpoint in {} is another model's: its {} is {}, and that of {} is {}",
                  options.checkpoints, node.name, value.spec().to_string(), options.model,
                  node.outputs[0].to_string());
  }
  return saved;
}

}  // namespace

Result<TaskReport> run_one_task(const JobOptions& options, const std::string& task,
                                const OnStep& on_step) {
  if (options.places.count(task) == 0)
    return fail(Code::kNotFound, "the cluster has no task {}; there are {}", task,
                fmt::join(names_of(options.places), ", "));
  if (options.secret.empty() && options.secret_file.empty())
    return fail(Code::kInvalidArgument, "tasks that are started one by one need a secret");
  const auto plan = FERRY_TRY(plan_job(options));
  const auto begin = FERRY_TRY(begin_of(options, plan));
  HandLine line(options.places, on_step);
  auto alone = options;
  alone.take_variables = false;
  alone.test_every = 0;  // no task has all variables
  FERRY_TRY(run_task({alone, plan, task, options.secret, begin.step + 1, begin.tensors, ""}, line));
  return line.take_report();
}

Result<JobReport> run_job(const JobOptions& options, const OnStep& on_step,
                          const std::function<bool()>& stop) {
  const auto plan = FERRY_TRY(plan_job(options));
  const auto names = variables_of(plan.program.graph);
  const auto begin = FERRY_TRY(begin_of(options, plan));
  const auto scratch = FERRY_TRY(ScratchFolder::make());
  const auto secret = options.secret.empty() ? FERRY_TRY(random_secret()) : options.secret;
  const bool measures = options.processes && options.tuning == mail::TuningUse::kMeasure &&
                        options.spin == fabric::Options().spin && waits_by_library(options);
  const bool measured =
      measures && measure_own_host(options.provider, stop).source == mail::SpinSource::kMeasured;
  std::vector<TaskRun> runs;
  for (const auto& task : tasks_of(plan.partition))
    runs.push_back({options, plan, task, secret, begin.step + 1, begin.tensors, scratch.path()});
  std::map<std::uint64_t, double> ends;  // of steps, in seconds
  const auto note = [&](const StepReport& step) {
    if (step.worker == 0 && options.test_every > 0) ends[step.step] = step.seconds;
    if (on_step) on_step(step);
  };
  auto report = FERRY_TRY(options.processes ? run_processes(runs, note, stop)
                                            : run_threads(runs, note, stop));
  report.feeds = plan.model.feeds;
  report.emulated = options.emulate;
  report.made_up = made_up(plan);
  report.first_step = begin.step + 1;
  report.steps = options.steps;
  report.spin = longest_spin(report.tasks, measured);
  const storage::CheckpointFolder saved(scratch.path());
  if (options.take_variables) report.variables = FERRY_TRY(saved.load_newest(names)).tensors;
  if (options.test_every > 0 && has_test_set(report.feeds))
    for (const auto step : saved.steps()) {
      const auto then = FERRY_TRY(saved.load(step, names));
      report.tests.insert(report.tests.begin(),
                          {step, ends[step], FERRY_TRY(test_model(options, then.tensors))});
    }
  return report;
}

}  // namespace ferry::train
