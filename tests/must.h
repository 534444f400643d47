// What all test programs that span processes say of results.
#pragma once

#include <stdexcept>

#include "ferry/base/error.h"

namespace ferry::trial {

// The value, or the end of the test with the error's own words.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}
inline void must(Status status) {
  if (!status) throw std::runtime_error(status.error().to_string());
}

// The code of an outcome, kOk included.
template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::kOk : result.error().code();
}

}  // namespace ferry::trial
