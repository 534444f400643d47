#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ferry/train/job.h"

namespace ferry::cli {

// What the tasks of a job sent, and what registering memory for it took: the figures of paper 002.
struct SentFigures {
  runtime::CrossingStats sent;                           // by all tasks
  std::vector<fabric::RegistrationStats> registrations;  // by all tasks; none over gRPC

  // The part of the tensors that were sent from registered memory, neither copied nor registered
  // for it. None over gRPC, or if nothing was sent.
  std::optional<double> registered_share() const;
  // The part that registering had in the time of the transfer pipeline: transfers under way, and
  // registrations before them. None where no provider registers with hardware.
  std::optional<double> registering_share() const;
};
SentFigures sent_by(const std::vector<train::TaskReport>& tasks);

// "82.6 %"; "-" for none.
std::string share_text(const std::optional<double>& share);
// What the two shares mean for these jobs, a sentence each; nothing if none has any.
std::vector<std::string> registration_notes(const std::vector<SentFigures>& jobs);

nlohmann::json sent_json(const runtime::CrossingStats& sent);
// Null over gRPC.
nlohmann::json registration_json(const SentFigures& figures);

}  // namespace ferry::cli
