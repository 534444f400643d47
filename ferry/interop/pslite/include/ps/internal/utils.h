#pragma once

#include <dmlc/logging.h>
#include <ps/internal/env.h>

#include <cstdlib>
#include <type_traits>

namespace ps {

// A variable of the environment as a text or a number, whatever the given one is; the given one if
// there is no such variable.
template <typename V>
inline V GetEnv(const char* key, V default_val) {
  const char* val = Environment::Get()->find(key);
  if (val == nullptr) return default_val;
  if constexpr (std::is_floating_point_v<V>)
    return static_cast<V>(std::strtod(val, nullptr));
  else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>)
    return static_cast<V>(std::strtoll(val, nullptr, 10));
  else
    return V(val);
}

}  // namespace ps

#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(TypeName) \
  TypeName(const TypeName&) = delete;      \
  void operator=(const TypeName&) = delete
#endif

#define PS_VLOG(x) LOG_IF(INFO, (x) <= ::ps::Postoffice::Get()->verbose())
#define LL LOG(ERROR)
