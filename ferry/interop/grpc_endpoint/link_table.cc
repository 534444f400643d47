#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/link_table_internal.h"
#include "ferry/mail/tuning_cache.h"

namespace ferry::interop {

namespace {

constexpr std::size_t kMostReports = 10'000;

}  // namespace

std::string path_of(const fabric::Channel& channel) {
  const auto path = mail::TuningPath::of(channel);
  return path.provider + " " + path.host + " " + path.other_host;
}

Result<std::shared_ptr<Link>> LinkTable::open(fabric::Channel channel, const LinkThresholds& set,
                                              Deadline deadline) {
  auto link =
      FERRY_TRY(Link::open(device_.room(), device_.device(), std::move(channel), set, deadline));
  {
    LockGuard<Mutex> guard(lock_);
    links_.insert(link.get());
  }
  return std::shared_ptr<Link>(link.release(), [this](Link* last) {
    background_.run_later([this, last] { close(std::unique_ptr<Link>(last)); });
  });
}

void LinkTable::close(std::unique_ptr<Link> link) {
  {
    LockGuard<Mutex> guard(lock_);
    keep(link->report());
    past_ += link->traffic();
    links_.erase(link.get());
  }
  link.reset();
  closed_();
}

void LinkTable::retune(const std::string& path, const mail::FoundTuning& found) {
  LockGuard<Mutex> guard(lock_);
  for (auto* link : links_)
    if (link->lacks_tuning() && path_of(link->channel()) == path) link->retune(found);
}

PluginTraffic LinkTable::traffic() {
  LockGuard<Mutex> guard(lock_);
  auto all = past_;
  for (const auto* link : links_) all += link->traffic();
  return all;
}

void LinkTable::keep(std::string line) {
  if (PluginOptions::get().stats.empty()) return;
  if (reports_.size() < kMostReports)
    reports_.push_back(std::move(line));
  else
    ++unreported_;
}

void LinkTable::note_plain(bool client, const std::string& peer, const std::string& why) {
  logger().info("gRPC's connection {} {} stays on TCP: {}", client ? "to" : "from", peer, why);
  LockGuard<Mutex> guard(lock_);
  keep(fmt::format("{} {} stays on TCP: {}", client ? "to" : "from", peer, why));
}

std::string LinkTable::report() {
  LockGuard<Mutex> guard(lock_);
  std::string text;
  for (const auto& report : reports_) text += fmt::format("tensorferry grpc {}\n", report);
  for (const auto* link : links_) text += fmt::format("tensorferry grpc {}\n", link->report());
  if (unreported_ != 0)
    text +=
        fmt::format("tensorferry grpc reports of {} more connections were not kept\n", unreported_);
  return text;
}

}  // namespace ferry::interop
