#pragma once

#include "bench/limits/link.h"
#include "ferry/base/error.h"

// For programs that measure: what fails ends the run with its sentence.
namespace ferry::bench {

template <class T>
T need(Result<T> result) {
  if (!result) throw limits::Failure(result.error().to_string());
  return *std::move(result);
}
inline void need(const Status& status) {
  if (!status) throw limits::Failure(status.error().to_string());
}

}  // namespace ferry::bench
