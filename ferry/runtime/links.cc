#include "ferry/runtime/links.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <thread>
#include <vector>

namespace ferry::runtime {
namespace {

constexpr std::size_t kMostGreeting = 1024;
constexpr Nanos kPause = std::chrono::milliseconds(100);  // between two tries

// The parts of a program's text that the other has not.
std::string without(std::string_view program, std::string_view other) {
  const auto parts_of = [](std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t end = 0; end < text.size(); text.remove_prefix(std::min(end + 2, text.size())))
      parts.emplace_back(text.substr(0, end = std::min(text.find(", "), text.size())));
    return parts;
  };
  const auto others = parts_of(other);
  auto own = parts_of(program);
  std::erase_if(own, [&](const auto& part) {
    return std::find(others.begin(), others.end(), part) != others.end();
  });
  return fmt::format("{}", fmt::join(own, ", "));
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

std::set<std::string> Links::providers() const {
  std::set<std::string> names;
  for (const auto& [task, channel] : channels_) names.emplace(channel->provider());
  return names;
}

Status Links::part(Deadline deadline) {
  static constexpr std::array<std::byte, 1> word{};  // sends may outlive a failure here
  std::vector<fabric::Transfer> told;
  told.reserve(channels_.size());
  for (auto& [task, channel] : channels_)
    told.push_back(channel->send(word, {.deadline = deadline}));
  for (auto& [task, channel] : channels_) {
    std::array<std::byte, 1> heard;
    const auto length = channel->receive(heard, deadline);
    if (!length)
      return fail(length.error().code(), "{} has not come to its end: {}", task,
                  length.error().message());
  }
  for (auto& transfer : told) FERRY_TRY(transfer.wait());
  return {};
}

Status Links::connect(const std::string& task, Deadline deadline) {
  const auto found = endpoints_.find(task);
  if (found == endpoints_.end()) return fail(Code::kNotFound, "the cluster has no task {}", task);
  auto channel = reach(found->second, deadline);
  if (!channel)
    return fail(channel.error().code(), "{} does not get through to {} at {}: {}", task_, task,
                found->second, channel.error().message());
  auto kept = std::make_unique<fabric::Channel>(*std::move(channel));
  FERRY_TRY(greet(*kept, deadline));
  FERRY_TRY(hear_greeting(*kept, deadline));
  channels_[task] = std::move(kept);
  return {};
}

// The others may not have been started yet.
Result<fabric::Channel> Links::reach(const std::string& endpoint, Deadline deadline) const {
  for (;;) {
    auto channel = device_.connect(endpoint, {.deadline = deadline});
    if (channel || channel.error().code() != Code::kUnavailable || deadline.left() < kPause)
      return channel;
    std::this_thread::sleep_for(kPause);
  }
}

Status Links::greet(fabric::Channel& channel, Deadline deadline) const {
  const auto text = fmt::format("{}\n{}", program_, task_);
  return channel.send(std::as_bytes(std::span(text)), {.deadline = deadline}).wait();
}

// The other's task.
Result<std::string> Links::hear_greeting(fabric::Channel& channel, Deadline deadline) const {
  std::array<std::byte, kMostGreeting> bytes;
  const auto length = FERRY_TRY(channel.receive(bytes, deadline));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), length);
  const auto end = std::min(text.find('\n'), text.size());
  const std::string task(text.substr(std::min(end + 1, text.size())));
  const auto theirs = text.substr(0, end);
  if (theirs == program_) return task;
  return fail(Code::kFailedPrecondition,
              "{} at {} runs another program than {}: it has {}, not {}; all tasks need the same "
              "options",
              task, channel.peer_endpoint(), task_, without(theirs, program_),
              without(program_, theirs));
}

Status Links::accept(std::set<std::string>& missing, Deadline deadline) {
  auto channel = device_.accept(deadline);
  if (!channel)
    return fail(channel.error().code(), "{} waits for {}: {}", task_, fmt::join(missing, ", "),
                channel.error().message());
  auto kept = std::make_unique<fabric::Channel>(*std::move(channel));
  FERRY_TRY(greet(*kept, deadline));  // first, so that the other learns what is wrong too
  const auto task = FERRY_TRY(hear_greeting(*kept, deadline));
  // Somebody of the cluster, but none that this task has to do with.
  if (missing.erase(task) == 0) return {};
  channels_[task] = std::move(kept);
  return {};
}

}  // namespace ferry::runtime
