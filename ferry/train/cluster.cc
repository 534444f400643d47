#include "ferry/train/cluster.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "ferry/bootstrap/endpoint.h"
#include "ferry/graph/placement.h"

namespace ferry::train {
namespace {

using nlohmann::json;

Result<json> read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail_errno(errno, "cannot open {}", path);
  auto parsed = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object())
    return fail(Code::kInvalidArgument,
                "{} is no cluster file; one looks like {{\"ps\": [\"host:port\"], \"worker\": "
                "[\"host:port\", ...]}}",
                path);
  return parsed;
}

// The tasks of one job, into the cluster; how many there are.
Result<std::uint32_t> take_job(const std::string& job, const json& endpoints,
                               const std::string& path, Places& places) {
  if (!endpoints.is_array())
    return fail(Code::kInvalidArgument, "{}: '{}' is no list of \"host:port\"", path, job);
  std::uint32_t number = 0;
  for (const auto& endpoint : endpoints) {
    const graph::Task task{job, number++};
    const auto text = endpoint.is_string() ? endpoint.get<std::string>() : endpoint.dump();
    const auto parsed = bootstrap::Endpoint::parse(text);
    if (!parsed)
      return fail(Code::kInvalidArgument, "{}: {} is at '{}': {}", path, task.to_string(), text,
                  parsed.error().message());
    if (parsed->port == 0)
      return fail(Code::kInvalidArgument, "{}: {} needs a port that the others know, not 0", path,
                  task.to_string());
    for (const auto& [other, place] : places)
      if (place == text)
        return fail(Code::kInvalidArgument, "{}: {} and {} are both at {}", path, other,
                    task.to_string(), text);
    places[task.to_string()] = text;
  }
  return number;
}

}  // namespace

Result<Cluster> read_cluster(const std::string& path) {
  Cluster cluster;
  const auto jobs = FERRY_TRY(read_json(path));
  for (const auto& [job, endpoints] : jobs.items()) {
    if (job != "ps" && job != "worker")
      return fail(Code::kInvalidArgument, "{}: there is no job '{}'; there are ps and worker", path,
                  job);
    auto& count = job == "ps" ? cluster.servers : cluster.workers;
    count = FERRY_TRY(take_job(job, endpoints, path, cluster.places));
  }
  if (cluster.workers == 0) return fail(Code::kInvalidArgument, "{} has no worker", path);
  return cluster;
}

}  // namespace ferry::train
