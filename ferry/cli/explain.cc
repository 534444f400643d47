#include "ferry/cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/job_options.h"
#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"
#include "ferry/graph/graph_text.h"
#include "ferry/train/forecast.h"

namespace ferry::cli {
namespace {

struct ExplainFlags : JobFlags {
  bool json = false;
  bool dot = false;
  bool traced = false;
};

// A crossing in one step: as planned, or as a job did it.
struct Explained {
  const graph::Crossing* crossing = nullptr;
  runtime::CrossingStats step;
  std::string_view how;
};

// Bytes of a crossing in one step; none while a dimension is unknown.
std::optional<std::uint64_t> bytes_of(const Explained& one) {
  if (one.step.bytes > 0) return one.step.bytes;
  const auto bytes = one.crossing->spec.bytes();
  return bytes ? std::optional(*bytes) : std::nullopt;
}

std::vector<Explained> explain_plan(const train::JobPlan& plan, const train::JobOptions& job) {
  const auto forecast = train::forecast(plan, job);
  std::vector<Explained> all;
  all.reserve(plan.partition.crossings.size());
  for (const auto& crossing : plan.partition.crossings)
    all.push_back({&crossing, forecast[crossing.id].step, forecast[crossing.id].how});
  return all;
}

// Runs the job for two steps: the first is traced, and the second is what is told.
Status replace_by_traced(std::vector<Explained>& all, train::JobOptions job) {
  if (!job.synchronous)
    return fail(Code::kInvalidArgument,
                "--traced follows a step that all tasks take together; leave out --async");
  job.steps = 2;
  job.by_crossing = true;
  job.take_variables = false;
  InterruptGuard guard;
  const auto report =
      FERRY_TRY(train::run_job(job, {}, [] { return InterruptGuard::interrupted(); }));
  for (auto& one : all) one.step = {};
  for (const auto& task : report.tasks)
    for (const auto& [crossing, stats] : task.steady) all[crossing].step += stats;
  return {};
}

// "/job:ps/task:0" as "ps 0".
std::string short_task(const std::string& task) {
  const auto parsed = graph::parse_task(task);
  return parsed ? fmt::format("{} {}", parsed->job, parsed->index) : task;
}

// The operator whose output is sent, behind those that only hand it on: where the tensor is
// allocated, unless it is made in the memory of an input.
std::string site_of(const graph::Partition& partition, const graph::Crossing& crossing) {
  if (crossing.protocol == graph::TransferProtocol::kShared) return "the variable";
  for (const auto& part : partition.parts) {
    if (part.task != crossing.from) continue;
    const auto send = part.graph.find(fmt::format("send/{}/{}", crossing.id, crossing.name));
    if (!send) continue;
    const auto* node = &part.graph.node(part.graph.node(*send).inputs[0].node);
    while (node->op->forwards && node->op->updates == 0)
      node = &part.graph.node(node->inputs[0].node);
    if (node->name == crossing.name) return node->op->name;
    return fmt::format("{} ({})", node->op->name, node->name);
  }
  return "?";
}

// All crossings of a step together.
struct Totals {
  runtime::CrossingStats sent;
  std::uint64_t leased = 0;  // shared variables,
  std::uint64_t leased_bytes = 0;
  bool varies = false;  // some bytes are not known
};
Totals totals_of(const std::vector<Explained>& all) {
  Totals totals;
  for (const auto& one : all) {
    totals.sent += one.step;
    totals.varies = totals.varies || !bytes_of(one);
    if (one.crossing->protocol != graph::TransferProtocol::kShared) continue;
    ++totals.leased;
    totals.leased_bytes += bytes_of(one).value_or(0);
  }
  return totals;
}

// Crossings that go the same way for the same reason, with one line for all of them.
void print_kinds(const std::vector<Explained>& all) {
  struct Kind {
    std::size_t count = 0;
    std::uint64_t copies = 0;
    std::string why;  // of the first
  };
  std::map<std::pair<std::string, std::string>, Kind> kinds;
  for (const auto& one : all) {
    auto& kind = kinds[{std::string(name_of(one.crossing->protocol)), std::string(one.how)}];
    if (++kind.count == 1) kind.why = one.crossing->why;
    kind.copies += one.step.copies;
  }
  for (const auto& [name, kind] : kinds)
    fmt::print("{:>4} {:<8} {}; {}: {}\n", kind.count, name.first, kind.why, name.second,
               kind.copies == 1 ? "1 copy" : fmt::format("{} copies", kind.copies));
}

void print_table(const train::JobPlan& plan, const std::vector<Explained>& all) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& one : all) {
    const auto& crossing = *one.crossing;
    const auto bytes = bytes_of(one);
    rows.push_back({crossing.name, short_task(crossing.from), short_task(crossing.to),
                    crossing.spec.to_string(), bytes ? size_text(*bytes) : "varies",
                    std::string(name_of(crossing.protocol)), fmt::format("{}", one.step.copies),
                    site_of(plan.partition, crossing)});
  }
  fmt::print("{}\n", render_table({"tensor", "from", "to", "type and shape", "bytes", "way",
                                   "copies", "allocated by"},
                                  rows));
  print_kinds(all);
  const auto totals = totals_of(all);
  fmt::print("{} crossings; in each step {} tensors are sent, {}{}, {} of them in place, {} copies",
             all.size(), totals.sent.tensors, size_text(totals.sent.bytes),
             totals.varies ? " and those that vary" : "", totals.sent.in_place, totals.sent.copies);
  fmt::print("; {} are leased where they are, {}\n", totals.leased, size_text(totals.leased_bytes));
  std::uint64_t variables = 0;
  for (const auto id : plan.program.trained)
    variables += plan.program.graph.spec({id, 0}).bytes().value_or(0);
  fmt::print("{} variables, {}; {} nodes\n", plan.program.trained.size(), size_text(variables),
             plan.program.graph.size());
}

void print_json(const train::JobPlan& plan, const std::vector<Explained>& all,
                const ExplainFlags& flags) {
  auto crossings = nlohmann::json::array();
  for (const auto& one : all) {
    const auto& crossing = *one.crossing;
    const auto bytes = bytes_of(one);
    crossings.push_back({{"tensor", crossing.name},
                         {"from", crossing.from},
                         {"to", crossing.to},
                         {"spec", crossing.spec.to_string()},
                         {"bytes", bytes ? nlohmann::json(*bytes) : nlohmann::json()},
                         {"way", name_of(crossing.protocol)},
                         {"in_place", one.step.in_place > 0},
                         {"copies", one.step.copies},
                         {"how", one.how},
                         {"site", site_of(plan.partition, crossing)},
                         {"why", crossing.why}});
  }
  const auto totals = totals_of(all);
  const nlohmann::json step = {{"tensors", totals.sent.tensors},
                               {"bytes", totals.sent.bytes},
                               {"in_place", totals.sent.in_place},
                               {"copies", totals.sent.copies},
                               {"leased", totals.leased}};
  fmt::print("{}\n", nlohmann::json{{"model", flags.job.model},
                                    {"traced", flags.traced},
                                    {"each_step", step},
                                    {"crossings", crossings}}
                         .dump(2));
}

Result<int> run_explain(const ExplainFlags& flags) {
  const auto jobs = FERRY_TRY(jobs_of(flags));
  if (jobs.size() != 1)
    return fail(Code::kInvalidArgument, "explain takes one transport, not {}", jobs.size());
  const auto plan = FERRY_TRY(train::plan_job(jobs[0]));
  if (flags.dot) {
    fmt::print("{}", graph::to_dot(plan.program.graph));
    return 0;
  }
  auto all = explain_plan(plan, jobs[0]);
  if (flags.traced) FERRY_TRY(replace_by_traced(all, jobs[0]));
  if (flags.json) {
    print_json(plan, all, flags);
  } else {
    print_table(plan, all);
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExplainFlags>();
  auto* command = app.add_subcommand("explain", "How each tensor of a model crosses, and why");
  add_job_options(*command, *flags);
  add_task_counts(*command, *flags);
  command->add_flag("--traced", flags->traced,
                    "Run two steps, and say what the second one did instead of what is planned");
  command->add_flag("--json", flags->json, "As JSON, on standard output");
  command->add_flag("--dot", flags->dot, "The whole graph as a drawing for Graphviz");
  command->callback([flags, &exit_code] {
    const auto status = run_explain(*flags);
    if (!status) fmt::print(stderr, "ferry explain: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
