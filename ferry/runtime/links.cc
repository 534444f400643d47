#include "ferry/runtime/links.h"

#include <fmt/ranges.h>

#include <array>
#include <span>

namespace ferry::runtime {
namespace {

constexpr std::size_t kMostName = 256;

std::span<const std::byte> name_bytes(const std::string& name) {
  return std::as_bytes(std::span(name));
}

}  // namespace

Status Links::open(const std::set<std::string>& tasks, Deadline deadline) {
  std::set<std::string> missing;
  for (const auto& task : tasks) {
    if (task_ < task) {
      FERRY_TRY(connect(task, deadline));
    } else {
      missing.insert(task);
    }
  }
  while (!missing.empty()) FERRY_TRY(accept(missing, deadline));
  return {};
}

Status Links::connect(const std::string& task, Deadline deadline) {
  const auto found = endpoints_.find(task);
  if (found == endpoints_.end()) return fail(Code::kNotFound, "the cluster has no task {}", task);
  auto channel = device_.connect(found->second, {.deadline = deadline});
  if (!channel)
    return fail(channel.error().code(), "{} does not get through to {} at {}: {}", task_, task,
                found->second, channel.error().message());
  auto kept = std::make_unique<fabric::Channel>(*std::move(channel));
  FERRY_TRY(kept->send(name_bytes(task_), {.deadline = deadline}).wait());
  channels_[task] = std::move(kept);
  return {};
}

Status Links::accept(std::set<std::string>& missing, Deadline deadline) {
  auto channel = device_.accept(deadline);
  if (!channel)
    return fail(channel.error().code(), "{} waits for {}: {}", task_, fmt::join(missing, ", "),
                channel.error().message());
  auto kept = std::make_unique<fabric::Channel>(*std::move(channel));
  std::array<std::byte, kMostName> text;
  const auto length = FERRY_TRY(kept->receive(text, deadline));
  const std::string task(reinterpret_cast<const char*>(text.data()), length);
  // Somebody of the cluster, but none that this task has to do with.
  if (missing.erase(task) == 0) return {};
  channels_[task] = std::move(kept);
  return {};
}

}  // namespace ferry::runtime
