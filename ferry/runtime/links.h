#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "ferry/fabric/device.h"

namespace ferry::runtime {

// The channels from one task to the others that it has to do with. Of two tasks the one whose name
// comes first connects. One thread.
class Links {
 public:
  // Where each task's device listens.
  using Endpoints = std::map<std::string, std::string>;

  Links(fabric::Device& device, std::string task, Endpoints endpoints)
      : device_(device), task_(std::move(task)), endpoints_(std::move(endpoints)) {}

  fabric::Device& device() const { return device_; }
  const std::string& task() const { return task_; }

  // Opens a channel to each of them; they do the same. kNotFound for a task without an endpoint,
  // kDeadlineExceeded names those that did not come.
  Status open(const std::set<std::string>& tasks, Deadline deadline);
  // After open(); stays where it is.
  fabric::Channel& to(const std::string& task) { return *channels_.at(task); }

 private:
  Status connect(const std::string& task, Deadline deadline);
  Status accept(std::set<std::string>& missing, Deadline deadline);

  fabric::Device& device_;
  const std::string task_;
  const Endpoints endpoints_;
  std::map<std::string, std::unique_ptr<fabric::Channel>> channels_;
};

}  // namespace ferry::runtime
