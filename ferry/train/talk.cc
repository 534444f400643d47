#include <nlohmann/json.hpp>

#include "ferry/train/talk_internal.h"

namespace ferry::train {
namespace {

using nlohmann::json;

json crossings_json(const runtime::CrossingStats& stats) {
  return {stats.tensors,        stats.bytes,      stats.in_place,   stats.copies,
          stats.endpoint_bytes, stats.registered, stats.transfer_ns};
}
runtime::CrossingStats crossings_in(const json& text) {
  return {text.at(0), text.at(1), text.at(2), text.at(3), text.at(4), text.at(5), text.at(6)};
}

json registrations_json(const std::vector<fabric::RegistrationStats>& by_provider) {
  auto all = json::array();
  for (const auto& stats : by_provider)
    all.push_back({stats.provider, stats.hardware, stats.count, stats.ns, stats.for_transfers,
                   stats.for_transfers_ns, stats.reused});
  return all;
}
std::vector<fabric::RegistrationStats> registrations_in(const json& text) {
  std::vector<fabric::RegistrationStats> by_provider;
  for (const auto& one : text)
    by_provider.push_back(
        {one.at(0), one.at(1), one.at(2), one.at(3), one.at(4), one.at(5), one.at(6)});
  return by_provider;
}

json executor_json(const runtime::ExecutorStats& stats) {
  return {
      stats.steps,          stats.operators,        stats.polls, stats.waits, stats.traced_steps,
      stats.sites_in_place, stats.sites_registered, stats.blocks};
}
runtime::ExecutorStats executor_in(const json& text) {
  return {text.at(0), text.at(1), text.at(2), text.at(3),
          text.at(4), text.at(5), text.at(6), text.at(7)};
}

json steady_json(const std::map<std::uint32_t, runtime::CrossingStats>& by_crossing) {
  auto all = json::array();
  for (const auto& [crossing, stats] : by_crossing)
    all.push_back({crossing, crossings_json(stats)});
  return all;
}
std::map<std::uint32_t, runtime::CrossingStats> steady_in(const json& text) {
  std::map<std::uint32_t, runtime::CrossingStats> by_crossing;
  for (const auto& one : text) by_crossing[one.at(0)] = crossings_in(one.at(1));
  return by_crossing;
}

json spin_json(const std::optional<mail::SpinInUse>& spin) {
  if (!spin) return {};
  return {spin->spin.count(), name_of(spin->source)};
}
std::optional<mail::SpinInUse> spin_in(const json& text) {
  if (text.is_null()) return {};
  const auto source = mail::spin_source_named(text.at(1).get<std::string>());
  return mail::SpinInUse{Nanos(text.at(0).get<std::int64_t>()),
                         source.value_or(mail::SpinSource::kDefault)};
}

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }
std::optional<double> optional_in(const json& text) {
  return text.is_null() ? std::nullopt : std::optional<double>(text);
}

Said said_in(const json& text) {
  Said said;
  said.endpoint = text.value("endpoint", "");
  said.error = text.value("error", "");
  said.gone = text.value("gone", false);
  if (const auto step = text.find("step"); step != text.end())
    said.step = StepReport{step->at(0), step->at(1), optional_in(step->at(2)),
                           optional_in(step->at(3)), step->at(4)};
  if (const auto end = text.find("end"); end != text.end())
    said.end = TaskReport{end->at("task"),
                          crossings_in(end->at("crossings")),
                          executor_in(end->at("executor")),
                          end->at("reorders"),
                          registrations_in(end->at("registrations")),
                          steady_in(end->at("steady")),
                          spin_in(end->at("spin"))};
  return said;
}

}  // namespace

std::string line_of_endpoint(const std::string& endpoint) {
  return json{{"endpoint", endpoint}}.dump();
}
std::string line_of_step(const StepReport& step) {
  return json{{"step",
               {step.worker, step.step, optional_json(step.loss), optional_json(step.accuracy),
                step.seconds}}}
      .dump();
}
std::string line_of_end(const TaskReport& report) {
  return json{{"end",
               {{"task", report.task},
                {"crossings", crossings_json(report.crossings)},
                {"executor", executor_json(report.executor)},
                {"reorders", report.reorders},
                {"registrations", registrations_json(report.registrations)},
                {"steady", steady_json(report.steady)},
                {"spin", spin_json(report.spin)}}}}
      .dump();
}
std::string line_of_error(const Error& error) {
  return json{{"error", error.to_string()}, {"gone", error.code() == Code::kUnavailable}}.dump();
}

Result<Said> parse_said(const std::string& line) {
  try {
    return said_in(json::parse(line));
  } catch (const json::exception& error) {
    return fail(Code::kDataLoss, "a task says what makes no sense: {}", error.what());
  }
}

std::string line_of_endpoints(const std::map<std::string, std::string>& endpoints) {
  return json(endpoints).dump();
}
Result<std::map<std::string, std::string>> parse_endpoints(const std::string& line) {
  try {
    return json::parse(line).get<std::map<std::string, std::string>>();
  } catch (const json::exception& error) {
    return fail(Code::kDataLoss, "these are no endpoints: {}", error.what());
  }
}

}  // namespace ferry::train
