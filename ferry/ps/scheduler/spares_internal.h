#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "ferry/ps/scheduler/job_event_internal.h"

namespace ferry::ps {

// A server that asks for a place in the job.
struct Spare {
  Question question;
  ServerPlace place;
  std::uint64_t token = 0;
};

// Servers that wait for the place of one that is gone, in the order in which they came. A part of
// JobState: no thread, no I/O. Between calls: the question of each is unanswered.
class Spares {
 public:
  bool empty() const { return spares_.empty(); }
  void add(Spare spare) { spares_.push_back(std::move(spare)); }
  // The one that waits longest: there is one.
  Spare take_first();
  // The connection has ended: it waits no more.
  void forget(PeerId peer);
  // None waits any more: the questions that are to be refused.
  std::vector<Question> take_questions();

 private:
  std::deque<Spare> spares_;
};

}  // namespace ferry::ps
