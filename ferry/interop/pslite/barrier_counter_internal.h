#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace ps {

// At the scheduler: who has come to which barrier. Pure logic; one thread at a time.
class BarrierCounter {
 public:
  // One call of Barrier() that has not returned.
  struct Waiting {
    int process = 0;
    std::uint32_t request = 0;  // unique within the process
  };
  // The processes that have to come to the barrier of a customer and a group, and how many of their
  // customers.
  using Members = std::function<std::map<int, int>(int customer_id, int group)>;

  void arrive(int customer_id, int group, const Waiting& one);
  // A process has died: none of its calls returns.
  void forget(int process);
  // The calls that return, since all members have come. Those who come early wait for the next one.
  std::vector<Waiting> take_complete(const Members& members);
  void clear() { barriers_.clear(); }

 private:
  // By customer and group; in the order in which they came.
  std::map<std::pair<int, int>, std::vector<Waiting>> barriers_;
};

}  // namespace ps
