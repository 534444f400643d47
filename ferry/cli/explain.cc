#include "ferry/cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ferry/cli/bench_size.h"
#include "ferry/cli/command_line.h"
#include "ferry/cli/job_options.h"
#include "ferry/cli/report_table.h"
#include "ferry/graph/graph_text.h"

namespace ferry::cli {
namespace {

struct ExplainFlags : JobFlags {
  bool json = false;
  bool dot = false;
};

// Bytes of a crossing in one step; none while a dimension is unknown.
std::optional<std::uint64_t> bytes_of(const graph::Crossing& crossing) {
  const auto bytes = crossing.spec.bytes();
  return bytes ? std::optional(*bytes) : std::nullopt;
}

// What a step costs in copies when all goes as planned.
std::string copies_of(const graph::Crossing& crossing, const train::JobOptions& job) {
  switch (job.transport) {
    case train::Transport::kFerry:
      if (crossing.way == graph::Way::kShared) return "0: leased where it is";
      return job.provider == "tcp" ? "0: sent from registered memory"
                                   : "0: produced in the receiver's slot";
    case train::Transport::kFerryCopy:
      return "1: into registered memory";
    case train::Transport::kFerryPrivate:
      return "2: one on each side";
    case train::Transport::kGrpc:
      return "1: out of gRPC's pieces";
  }
  return "?";
}

// The operator whose output is sent, behind those that only hand it on: where the tensor is
// allocated, unless it is made in the memory of an input.
std::string site_of(const graph::Partition& partition, const graph::Crossing& crossing) {
  if (crossing.way == graph::Way::kShared) return "the variable";
  for (const auto& part : partition.parts) {
    if (part.task != crossing.from) continue;
    const auto send = part.graph.find(fmt::format("send/{}/{}", crossing.id, crossing.name));
    if (!send) continue;
    const auto* node = &part.graph.node(part.graph.node(*send).inputs[0].node);
    while (node->op->forwards && node->op->updates == 0)
      node = &part.graph.node(node->inputs[0].node);
    return fmt::format("{} ({})", node->name, node->op->name);
  }
  return "?";
}

void print_table(const train::JobPlan& plan, const train::JobOptions& job) {
  std::vector<std::vector<std::string>> rows;
  std::uint64_t total = 0;
  std::map<std::string, std::size_t> ways;
  for (const auto& crossing : plan.partition.crossings) {
    const auto bytes = bytes_of(crossing);
    total += bytes.value_or(0);
    ++ways[std::string(name_of(crossing.way))];
    rows.push_back({crossing.name, crossing.from, crossing.to, crossing.spec.to_string(),
                    bytes ? size_text(*bytes) : "varies", std::string(name_of(crossing.way)),
                    copies_of(crossing, job), site_of(plan.partition, crossing), crossing.why});
  }
  fmt::print("{}", render_table({"tensor", "from", "to", "type and shape", "bytes", "way", "copies",
                                 "allocated by", "why"},
                                rows));
  std::vector<std::string> counts;
  counts.reserve(ways.size());
  for (const auto& [way, count] : ways) counts.push_back(fmt::format("{} {}", count, way));
  fmt::print("\n{} crossings ({}), {} in each step, and those that vary\n",
             plan.partition.crossings.size(), fmt::join(counts, ", "), size_text(total));
  std::uint64_t variables = 0;
  for (const auto id : plan.program.trained)
    variables += plan.program.graph.spec({id, 0}).bytes().value_or(0);
  fmt::print("{} variables, {}; {} nodes\n", plan.program.trained.size(), size_text(variables),
             plan.program.graph.size());
}

void print_json(const train::JobPlan& plan, const train::JobOptions& job) {
  auto crossings = nlohmann::json::array();
  for (const auto& crossing : plan.partition.crossings) {
    const auto bytes = bytes_of(crossing);
    crossings.push_back({{"tensor", crossing.name},
                         {"from", crossing.from},
                         {"to", crossing.to},
                         {"spec", crossing.spec.to_string()},
                         {"bytes", bytes ? nlohmann::json(*bytes) : nlohmann::json()},
                         {"way", name_of(crossing.way)},
                         {"copies", copies_of(crossing, job)},
                         {"site", site_of(plan.partition, crossing)},
                         {"why", crossing.why}});
  }
  fmt::print("{}\n", nlohmann::json{{"model", job.model}, {"crossings", crossings}}.dump(2));
}

Result<int> run_explain(const ExplainFlags& flags) {
  const auto jobs = FERRY_TRY(jobs_of(flags));
  if (jobs.size() != 1)
    return fail(Code::kInvalidArgument, "explain takes one transport, not {}", jobs.size());
  const auto plan = FERRY_TRY(train::plan_job(jobs[0]));
  if (flags.dot) {
    fmt::print("{}", graph::to_dot(plan.program.graph));
  } else if (flags.json) {
    print_json(plan, jobs[0]);
  } else {
    print_table(plan, jobs[0]);
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExplainFlags>();
  auto* command = app.add_subcommand("explain", "How each tensor of a model crosses, and why");
  add_job_options(*command, *flags);
  add_task_counts(*command, *flags);
  command->add_flag("--json", flags->json, "As JSON, on standard output");
  command->add_flag("--dot", flags->dot, "The whole graph as a drawing for Graphviz");
  command->callback([flags, &exit_code] {
    const auto status = run_explain(*flags);
    if (!status) fmt::print(stderr, "ferry explain: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
