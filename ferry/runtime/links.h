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

  // `program` stands for what all tasks are to run: one line of parts, "a 1, b 2", up to 900
  // letters.
  Links(fabric::Device& device, std::string task, std::string program, Endpoints endpoints)
      : device_(device),
        task_(std::move(task)),
        program_(std::move(program)),
        endpoints_(std::move(endpoints)) {}

  fabric::Device& device() const { return device_; }
  const std::string& task() const { return task_; }

  // Opens a channel to each of them; they do the same, sooner or later. kNotFound for a task
  // without an endpoint, kFailedPrecondition for one that runs another program, kDeadlineExceeded
  // or kUnavailable names those that did not come.
  Status open(const std::set<std::string>& tasks, Deadline deadline);
  // Waits until all of them have called it.
  Status part(Deadline deadline);
  // The providers that the channels run over.
  std::set<std::string> providers() const;
  // After open(); stays where it is.
  fabric::Channel& to(const std::string& task) { return *channels_.at(task); }
  // All of them, by task.
  const std::map<std::string, std::unique_ptr<fabric::Channel>>& all() const { return channels_; }

 private:
  Status connect(const std::string& task, Deadline deadline);
  Result<fabric::Channel> reach(const std::string& endpoint, Deadline deadline) const;
  Status greet(fabric::Channel& channel, Deadline deadline) const;
  Result<std::string> hear_greeting(fabric::Channel& channel, Deadline deadline) const;
  Status accept(std::set<std::string>& missing, Deadline deadline);

  fabric::Device& device_;
  const std::string task_;
  const std::string program_;
  const Endpoints endpoints_;
  std::map<std::string, std::unique_ptr<fabric::Channel>> channels_;
};

}  // namespace ferry::runtime
