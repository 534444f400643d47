#include "ferry/cli/common/sent_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ferry::cli {
namespace {

using fabric::RegistrationStats;

void merge_registrations(std::vector<RegistrationStats>& all, const RegistrationStats& one) {
  const auto same = [&one](const auto& known) { return known.provider == one.provider; };
  auto found = std::find_if(all.begin(), all.end(), same);
  if (found == all.end()) {
    all.push_back(one);
    return;
  }
  found->count += one.count;
  found->ns += one.ns;
  found->for_transfers += one.for_transfers;
  found->for_transfers_ns += one.for_transfers_ns;
  found->reused += one.reused;
}

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

nlohmann::json share_json(const std::optional<double>& share) {
  return share ? nlohmann::json(*share) : nlohmann::json();
}

}  // namespace

std::optional<double> SentFigures::registered_share() const {
  if (registrations.empty() || sent.tensors == 0) return std::nullopt;
  return static_cast<double>(sent.registered) / static_cast<double>(sent.tensors);
}

std::optional<double> SentFigures::registering_share() const {
  double registering = 0;
  double ahead = 0;  // of transfers: what is registered for one is in its time already
  bool hardware = false;
  for (const auto& stats : registrations) {
    if (!stats.hardware) continue;
    hardware = true;
    registering += seconds_of(stats.ns);
    ahead += seconds_of(stats.ns - std::min(stats.ns, stats.for_transfers_ns));
  }
  const auto pipeline = seconds_of(sent.transfer_ns) + ahead;
  if (!hardware || pipeline <= 0) return std::nullopt;
  return registering / pipeline;
}

SentFigures sent_by(const std::vector<train::TaskReport>& tasks) {
  SentFigures figures;
  for (const auto& task : tasks) {
    figures.sent += task.crossings;
    for (const auto& stats : task.registrations) merge_registrations(figures.registrations, stats);
  }
  return figures;
}

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", *share * 100) : "-";
}

std::vector<std::string> registration_notes(const std::vector<SentFigures>& jobs) {
  bool any = false;
  bool hardware = false;
  bool software = false;
  for (const auto& job : jobs) {
    any = any || job.registered_share();
    for (const auto& stats : job.registrations) (stats.hardware ? hardware : software) = true;
  }
  std::vector<std::string> notes;
  if (any)
    notes.emplace_back(
        "registered: tensors sent from registered memory, neither copied nor registered for it; "
        "the first step is traced and sends gradients from ordinary memory");
  if (any && software)
    notes.emplace_back(
        "shm and tcp register nothing with hardware: there, registered memory is the library's "
        "arenas, and there is no time spent registering to report (-)");
  if (any && hardware)
    notes.emplace_back(
        "registering: the part of the time of all transfers and registrations that went into "
        "registrations with the NIC");
  return notes;
}

nlohmann::json sent_json(const runtime::CrossingStats& sent) {
  return {{"tensors", sent.tensors},
          {"bytes", sent.bytes},
          {"in_place", sent.in_place},
          {"copies", sent.copies},
          {"endpoint_bytes", sent.endpoint_bytes}};
}

nlohmann::json registration_json(const SentFigures& figures) {
  if (figures.registrations.empty()) return {};
  auto providers = nlohmann::json::array();
  for (const auto& stats : figures.registrations)
    providers.push_back({{"provider", stats.provider},
                         {"hardware", stats.hardware},
                         {"registrations", stats.count},
                         {"seconds", seconds_of(stats.ns)},
                         {"for_transfers", stats.for_transfers},
                         {"for_transfers_seconds", seconds_of(stats.for_transfers_ns)},
                         {"reused", stats.reused}});
  return {{"tensors", figures.sent.tensors},
          {"registered", figures.sent.registered},
          {"registered_share", share_json(figures.registered_share())},
          {"registering_share", share_json(figures.registering_share())},
          {"transfer_seconds", seconds_of(figures.sent.transfer_ns)},
          {"providers", providers}};
}

}  // namespace ferry::cli
