#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/graph/graph.h"

namespace ferry::graph {

// A process of a cluster: "/job:ps/task:0".
struct Task {
  std::string job;
  std::uint32_t index = 0;

  std::string to_string() const { return fmt::format("/job:{}/task:{}", job, index); }
  friend auto operator<=>(const Task&, const Task&) = default;
};
// kInvalidArgument for anything that to_string() would not give.
Result<Task> parse_task(std::string_view text);

// The jobs of a cluster, and where the tasks of each are; an endpoint may be empty while nobody
// connects. Plain data.
struct ClusterSpec {
  std::map<std::string, std::vector<std::string>> jobs;

  // ClusterSpec::of({{"ps", 2}, {"worker", 4}}): tasks without endpoints.
  static ClusterSpec of(std::initializer_list<std::pair<std::string, std::size_t>> counts);

  std::size_t tasks(const std::string& job) const;  // 0 for a job that there is not
  bool has(const Task& task) const { return task.index < tasks(task.job); }
};

struct PlacementOptions {
  Task default_task = {"worker", 0};
  std::string variables_job = "ps";
};

// Puts variables that are not placed yet somewhere: in turn on the tasks of the job for variables,
// in the order in which they were made, and all on the default task where there is no such job. An
// optimizer's variables are beside the one that they are for.
void place_variables(Graph& graph, const ClusterSpec& cluster,
                     const PlacementOptions& options = {});
// Then updates beside what they update, and all else on the default task. Ends as check_placed()
// does.
Status place(Graph& graph, const ClusterSpec& cluster, const PlacementOptions& options = {});

// kInvalidArgument names a node that is on no task, on one that the cluster does not have, or that
// updates a variable of another task.
Status check_placed(const Graph& graph, const ClusterSpec& cluster);

}  // namespace ferry::graph
