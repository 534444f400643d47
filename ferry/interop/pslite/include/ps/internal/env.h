#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

namespace ps {

// The environment of the process, with what the program has put over it.
class Environment {
 public:
  static Environment* Get();
  // Values that count more than the process's own.
  static Environment* Init(const std::unordered_map<std::string, std::string>& envs);
  // Null if there is no such variable.
  const char* find(const char* key) const;

 private:
  Environment() = default;
  std::unordered_map<std::string, std::string> over_;
};

}  // namespace ps
