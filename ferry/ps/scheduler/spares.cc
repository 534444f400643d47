#include <utility>

#include "ferry/ps/scheduler/spares_internal.h"

namespace ferry::ps {

Spare Spares::take_first() {
  auto spare = std::move(spares_.front());
  spares_.pop_front();
  return spare;
}

void Spares::forget(PeerId peer) {
  std::erase_if(spares_, [&](const Spare& spare) { return spare.question.peer == peer; });
}

std::vector<Question> Spares::take_questions() {
  std::vector<Question> questions;
  for (const auto& spare : std::exchange(spares_, {})) questions.push_back(spare.question);
  return questions;
}

}  // namespace ferry::ps
