#pragma once

#include <dirent.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>

namespace ferry::contract {

// What this process holds of the operating system.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t shared_mappings = 0;  // of memfds, which is what arenas, rings and tables are made of

  friend bool operator<=(const Holdings& a, const Holdings& b) {
    return a.descriptors <= b.descriptors && a.threads <= b.threads &&
           a.shared_mappings <= b.shared_mappings;
  }
  std::string to_string() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(threads) + " threads, " +
           std::to_string(shared_mappings) + " shared mappings";
  }
};

inline std::size_t count_entries(const char* folder) {
  DIR* dir = opendir(folder);
  if (dir == nullptr) return 0;
  std::size_t count = 0;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

inline Holdings current_holdings() {
  Holdings now;
  now.descriptors = count_entries("/proc/self/fd");
  now.threads = count_entries("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) ++now.shared_mappings;
  }
  return now;
}

// What is still held above `before`, once things had time to settle: a joined thread leaves /proc a
// little later. Empty when nothing leaked.
inline std::string leaked_since(const Holdings& before) {
  Holdings now = current_holdings();
  for (int i = 0; i < 300 && !(now <= before); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = current_holdings();
  }
  if (now <= before) return "";
  return "before: " + before.to_string() + "; after: " + now.to_string();
}

}  // namespace ferry::contract
