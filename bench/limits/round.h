#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bench/limits/link.h"
#include "bench/limits/tensor.h"

// A round program plays both sides of a pair: it forks the second process, then takes commands on
// stdin and answers on stdout, one line each:
//
//   hello                                             ok name=.. what=.. sizes=min-max
//   run bytes=N rounds=R touch=page|all|bytes wait=spin|sleep produce=0|1
//                                                     ok ns=.. cpu_ns=.. checked=.. bad=..
//   quit
//
// or `error <sentence>`. Between commands both processes sleep.
namespace limits {

struct Run {
  std::uint64_t bytes = 0;
  std::uint64_t rounds = 0;
  Touch touch = Touch::kPages;
  bool sleep = false;
  bool produce = false;  // the giver writes the whole tensor anew in every round, within the clock
};

// One way to give a tensor to another process. Lives in both processes; giver and taker call
// different halves. Not thread-safe.
class Pair {
 public:
  virtual ~Pair() = default;

  // Makes this side's memory for tensors of this size, faulted in. May use Link::meet, equally
  // often on both sides.
  virtual void open(std::uint64_t bytes) = 0;
  virtual void close() = 0;

  // Giver. Where the tensor to give is. Stable between open and close.
  virtual std::span<std::byte> source() = 0;
  // Giver. Gives the source; returns when the answer is there.
  virtual void give(std::uint32_t round) = 0;

  // Taker. Waits for the tensor. The pieces stay valid until the next take or close.
  virtual Pieces take(std::uint32_t round) = 0;
  virtual void answer(std::uint32_t round) = 0;

  // A pair that streams has many gives of one tensor under way at once, as bandwidth tools do. A
  // run's rounds are then the messages of one stream, marked, read and answered once.
  virtual bool streams() const { return false; }
  // Giver. Gives the source `count` times; returns when the answer is there.
  virtual void give_stream(std::uint64_t count) { (void)count; }
  // Taker. Waits for the whole stream.
  virtual Pieces take_stream(std::uint64_t count) {
    (void)count;
    return {};
  }

  // Whether a run's time is told as its median round, which a stall of the machine does not move,
  // as latency tools do; else as the mean.
  virtual bool typical() const { return false; }

  // Whether waits sleep; set before each run.
  void set_sleep(bool sleep) { sleep_ = sleep; }

 protected:
  bool sleep_ = false;
};

struct Program {
  std::string name;
  std::string what;
  std::uint64_t min_bytes = 16;
  std::uint64_t max_bytes = std::uint64_t{8} << 30;
  // Address space both sides share; see Link.
  std::size_t shared_bytes = 0;
  // Called in each process, after the fork.
  std::function<std::unique_ptr<Pair>(Link&)> make = nullptr;
  // Instead of a pair: what one process does alone with a tensor in each round.
  std::function<void(std::span<std::byte>, const Run&)> alone = nullptr;
};

// Serves commands until `quit` or end of input. The exit status of the program.
int serve(const Program& program);

}  // namespace limits
