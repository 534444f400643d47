// A stand-in for dmlc-core's file of this name: its guard, and a little of what it defines.
#ifndef DMLC_BASE_H_
#define DMLC_BASE_H_

#define DMLC_LOG_FATAL_THROW 1
#define DMLC_USE_CXX11 1
#define DMLC_STR_CONCAT_(__x, __y) __x##__y
#define DMLC_STR_CONCAT(__x, __y) DMLC_STR_CONCAT_(__x, __y)

#include <string>
#include <vector>

namespace dmlc {
template <typename T>
inline T* BeginPtr(std::vector<T>& vec) {
  return vec.empty() ? nullptr : &vec[0];
}
}  // namespace dmlc

#endif  // DMLC_BASE_H_
