#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ferry/graph/builder.h"
#include "ferry/graph/optimizer.h"
#include "ferry/graph/placement.h"

namespace ferry::graph {

// What a model is for one worker: a scalar to be made small, and what else one wants to see.
struct Tower {
  Expr loss;
  std::map<std::string, Expr> metrics;
};
// Called once for each worker. Variables are shared between the towers by their names; inputs and
// all else belong to the worker.
using TowerFunction = std::function<Tower(Builder& builder)>;

struct ReplicateOptions {
  ClusterSpec cluster;
  std::string worker_job = "worker";
  std::string variables_job = "ps";  // none of its tasks in the cluster: the first worker has them
  Optimizer optimizer;
  // A constant, unless each step is fed with it: then it is the input "rate" of the first worker,
  // and of every worker if they are not synchronous.
  double rate = 0.01;
  bool feed_rate = false;
  // One update of each variable with the mean of all workers' gradients; else each worker's
  // gradients update it as they come, in a loop of its own on the variable's task.
  bool synchronous = true;
  // Tables are looked up where they are, so that rows and not tables cross to the workers.
  bool look_up_beside_tables = true;
};

// A data-parallel program, placed on its tasks. Workers are in the order of their tasks, and the
// names of their nodes begin "worker0/".
struct Replicated {
  struct Worker {
    Task task;
    Output loss;
    std::map<std::string, Output> metrics;
    std::map<std::string, NodeId> inputs;  // by the name without "worker0/"
    // What the tower itself updates, and what its gradients do: synchronous workers share those.
    std::vector<NodeId> updates;
  };
  Graph graph;
  std::vector<Worker> workers;
  std::vector<NodeId> trained;  // variables that gradients flow to
};

// kInvalidArgument if there is no worker, if a tower has no loss, or if no gradient flows to any
// variable; otherwise what the builder says.
Result<Replicated> replicate(const TowerFunction& tower, const ReplicateOptions& options);

}  // namespace ferry::graph
