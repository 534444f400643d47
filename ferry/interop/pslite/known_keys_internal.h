#pragma once

#include <ps/ps.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace ps {

// What was sent to a peer and came from it last, so that the same keys need not travel again. Used
// under its lock, which is held from the decision until the message is on its way.
class KnownKeys {
 public:
  std::mutex& lock() { return lock_; }
  // Whether the peer has these keys already; from now on it has.
  bool send(const SArray<char>& keys);
  // What the peer means: keys that it sends, or those that it sent before.
  const SArray<char>& receive(const SArray<char>& keys, bool same);

 private:
  std::mutex lock_;
  std::vector<char> sent_;
  SArray<char> sent_array_;  // if `sent_` came from there: an array that nobody changes
  SArray<char> received_;
};

// Those of all peers. Thread-safe.
class KnownKeysOfPeers {
 public:
  std::shared_ptr<KnownKeys> of(std::uint64_t peer);
  void erase(std::uint64_t peer);
  void clear();

 private:
  std::mutex mu_;
  std::map<std::uint64_t, std::shared_ptr<KnownKeys>> peers_;
};

}  // namespace ps
