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

// What a tensor costs in copies in each step when all goes as planned.
struct Copies {
  int count = 0;
  std::string_view how;
};

Copies copies_of(const graph::Crossing& crossing, const train::JobOptions& job) {
  switch (job.transport) {
    case train::Transport::kFerry:
      if (crossing.way == graph::Way::kShared) return {0, "leased where it is"};
      if (crossing.way == graph::Way::kDynamic) return {0, "read from where it was produced"};
      return {0, job.provider == "tcp" ? "sent from registered memory"
                                       : "produced in the receiver's slot"};
    case train::Transport::kFerryCopy:
      return {1, "into registered memory"};
    case train::Transport::kFerryPrivate:
      return {2, "one on each side"};
    case train::Transport::kGrpc:
    case train::Transport::kGrpcFerry:
      return {1, "out of gRPC's pieces"};
  }
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
  if (crossing.way == graph::Way::kShared) return "the variable";
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

void print_table(const train::JobPlan& plan, const train::JobOptions& job) {
  std::vector<std::vector<std::string>> rows;
  std::uint64_t total = 0;
  struct Kind {
    std::size_t count = 0;
    std::string why;  // of the first
    Copies copies;
  };
  std::map<std::string, Kind> kinds;
  int copies = 0;
  for (const auto& crossing : plan.partition.crossings) {
    const auto bytes = bytes_of(crossing);
    total += bytes.value_or(0);
    const std::string way(name_of(crossing.way));
    auto& kind = kinds[way];
    if (++kind.count == 1) kind = {1, crossing.why, copies_of(crossing, job)};
    copies += kind.copies.count;
    rows.push_back({crossing.name, short_task(crossing.from), short_task(crossing.to),
                    crossing.spec.to_string(), bytes ? size_text(*bytes) : "varies", way,
                    fmt::format("{}", kind.copies.count), site_of(plan.partition, crossing)});
  }
  fmt::print("{}\n", render_table({"tensor", "from", "to", "type and shape", "bytes", "way",
                                   "copies", "allocated by"},
                                  rows));
  for (const auto& [way, kind] : kinds)
    fmt::print("{:>4} {:<8} {}; {} copies: {}\n", kind.count, way, kind.why, kind.copies.count,
               kind.copies.how);
  fmt::print("{} crossings, {} in each step{}, {} copies\n", plan.partition.crossings.size(),
             size_text(total), kinds.count("dynamic") > 0 ? " and those that vary" : "", copies);
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
    const auto copies = copies_of(crossing, job);
    crossings.push_back({{"tensor", crossing.name},
                         {"from", crossing.from},
                         {"to", crossing.to},
                         {"spec", crossing.spec.to_string()},
                         {"bytes", bytes ? nlohmann::json(*bytes) : nlohmann::json()},
                         {"way", name_of(crossing.way)},
                         {"copies", copies.count},
                         {"copied", copies.how},
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
