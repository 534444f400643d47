#pragma once

#include <dmlc/logging.h>
#include <ps/internal/env.h>

#include <cstdlib>

namespace ps {

// A number of the environment, or what is given.
template <typename V>
inline V GetEnv(const char* key, V default_val) {
  const char* val = Environment::Get()->find(key);
  return val == nullptr ? default_val : static_cast<V>(std::atoi(val));
}
inline int GetEnv(const char* key, int default_val) {
  const char* val = Environment::Get()->find(key);
  return val == nullptr ? default_val : std::atoi(val);
}

}  // namespace ps

#define PS_VLOG(x) LOG_IF(INFO, (x) <= ::ps::Postoffice::Get()->verbose())
#define LL LOG(ERROR)
