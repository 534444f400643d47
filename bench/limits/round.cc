#include "bench/limits/round.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace limits {
namespace {

// Larger buffers are given back after each run, so that many idle programs fit into memory.
constexpr std::uint64_t kKeep = std::uint64_t{128} << 20;

std::uint64_t warm_rounds(const Run& run) {
  return 1 + std::min<std::uint64_t>(run.rounds / 10, 200);
}

// Begins the blackboard while a command is handed over; pairs may overwrite it afterwards.
struct Order {
  bool quit = false;
  Run run;
};
struct Verdict {
  std::int64_t cpu_ns = 0;
  std::uint64_t bad = 0;
};

template <class T>
void put(const Link& link, const T& value) {
  std::memcpy(link.blackboard().data(), &value, sizeof value);
}
template <class T>
T get(const Link& link) {
  T value;
  std::memcpy(&value, link.blackboard().data(), sizeof value);
  return value;
}

// What both sides keep between runs: the size that is open and the rounds since it was filled.
class Player {
 public:
  Player(const Program& program, Link& link) : program_(program), link_(link) {}

  // Ok line of the giver.
  std::string give(const Run& run) {
    put(link_, Order{false, run});
    link_.meet();
    begin(run);
    rounds_of_giver(warm_rounds(run));
    const auto cpu = cpu_ns();
    const auto ns = pair_->typical() ? timed_rounds(run.rounds) : timed(run.rounds);
    const auto giver_cpu = cpu_ns() - cpu;
    link_.meet();
    const auto verdict = get<Verdict>(link_);
    end(run);
    std::ostringstream line;
    line << "ok ns=" << ns << " cpu_ns=" << giver_cpu + verdict.cpu_ns << " checked=" << run.bytes
         << " bad=" << verdict.bad;
    return line.str();
  }

  // False when told to quit.
  bool take() {
    const auto order = get<Order>(link_);
    if (order.quit) return false;
    begin(order.run);
    Verdict verdict;
    verdict.bad = rounds_of_taker(warm_rounds(order.run), order.run.touch);
    const auto cpu = cpu_ns();
    verdict.bad += rounds_of_taker(order.run.rounds, order.run.touch);
    verdict.cpu_ns = cpu_ns() - cpu;
    verdict.bad += wrong_bytes(last_, order.run.bytes, round_, order.run.produce);
    put(link_, verdict);
    link_.meet();
    end(order.run);
    return true;
  }

  void quit() {
    put(link_, Order{true, {}});
    link_.meet();
  }

 private:
  void begin(const Run& run) {
    // Both sides have read the order before either writes to the blackboard again.
    link_.meet();
    if (!pair_) pair_ = program_.make(link_);
    // What a tensor holds depends on whether it is made anew in every round.
    if (open_ != run.bytes || produces_ != run.produce) {
      close();
      produces_ = run.produce;
      pair_->open(run.bytes);
      open_ = run.bytes;
      round_ = 0;
      if (link_.side() == Side::kGiver) fill(pair_->source());
      link_.meet();
    }
    pair_->set_sleep(run.sleep);
  }

  void end(const Run& run) {
    link_.meet();
    if (run.bytes > kKeep) close();
  }

  void close() {
    if (open_ == 0) return;
    last_ = {};
    open_ = 0;
    pair_->close();
  }

  void rounds_of_giver(std::uint64_t count) {
    const auto source = pair_->source();
    const auto make = produces_ ? produce : stamp;
    if (pair_->streams()) {
      make(source, ++round_);
      pair_->give_stream(count);
      return;
    }
    for (; count > 0; --count) {
      make(source, ++round_);
      pair_->give(static_cast<std::uint32_t>(round_));
    }
  }

  std::int64_t timed(std::uint64_t rounds) {
    const auto start = now_ns();
    rounds_of_giver(rounds);
    return now_ns() - start;
  }

  std::int64_t timed_rounds(std::uint64_t rounds) {
    std::vector<std::int64_t> each(rounds);
    for (auto& ns : each) ns = timed(1);
    const auto middle = each.begin() + static_cast<std::ptrdiff_t>(rounds / 2);
    std::nth_element(each.begin(), middle, each.end());
    return *middle * static_cast<std::int64_t>(rounds);
  }

  std::uint64_t rounds_of_taker(std::uint64_t count, Touch touch) {
    std::uint64_t bad = 0;
    if (pair_->streams()) {
      ++round_;
      return end_of_round(pair_->take_stream(count), touch);
    }
    for (; count > 0; --count)
      bad += end_of_round(pair_->take(static_cast<std::uint32_t>(++round_)), touch);
    return bad;
  }

  // How many marks were missing.
  std::uint64_t end_of_round(Pieces taken, Touch touch) {
    last_ = taken;
    const auto bad = missing_stamps(last_, open_, round_);
    sink_ = read_through(last_, touch);
    pair_->answer(static_cast<std::uint32_t>(round_));
    return bad;
  }

  const Program& program_;
  Link& link_;
  std::unique_ptr<Pair> pair_;
  std::uint64_t open_ = 0;
  std::uint64_t round_ = 0;
  bool produces_ = false;
  Pieces last_;
  volatile std::uint64_t sink_ = 0;
};

int serve_taker(const Program& program, Link& link) {
  try {
    Player player(program, link);
    for (;;) {
      link.rest();
      if (!player.take()) return 0;
    }
  } catch (const std::exception& failure) {
    link.leave_failure(failure.what());
  }
  // The giver reads the sentence and then ends this process, or ends itself.
  for (;;) pause();
}

std::optional<std::string> field(const std::string& line, const std::string& key) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.rfind(key + "=", 0) == 0) return word.substr(key.size() + 1);
  }
  return std::nullopt;
}

std::uint64_t number(const std::string& line, const std::string& key) {
  const auto text = field(line, key).value_or("");
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 18)
    throw Failure("run needs " + key + "=<a number>");
  return std::stoull(text);
}

Run parse_run(const std::string& line, const Program& program) {
  Run run{number(line, "bytes"), number(line, "rounds"), Touch::kPages, false};
  const auto touch = field(line, "touch").value_or("page");
  const auto wait = field(line, "wait").value_or("spin");
  const auto produce = field(line, "produce").value_or("0");
  if (touch != "page" && touch != "all" && touch != "bytes")
    throw Failure("touch is page, all or bytes, not " + touch);
  if (produce != "0" && produce != "1") throw Failure("produce is 0 or 1, not " + produce);
  if (wait != "spin" && wait != "sleep") throw Failure("wait is spin or sleep, not " + wait);
  if (run.rounds == 0) throw Failure("run needs at least one round");
  if (run.bytes < program.min_bytes || run.bytes > program.max_bytes)
    throw Failure("takes " + std::to_string(program.min_bytes) + " to " +
                  std::to_string(program.max_bytes) + " bytes, not " + std::to_string(run.bytes));
  run.touch = touch == "all" ? Touch::kAll : touch == "bytes" ? Touch::kBytes : Touch::kPages;
  run.produce = produce == "1";
  run.sleep = wait == "sleep";
  return run;
}

// One process alone: no link, no taker.
std::string run_alone(const Program& program, const Run& run) {
  Memory memory(run.bytes);
  fill(memory.bytes());
  for (auto warm = warm_rounds(run); warm > 0; --warm) program.alone(memory.bytes(), run);
  const auto cpu = cpu_ns();
  const auto start = now_ns();
  for (auto round = run.rounds; round > 0; --round) program.alone(memory.bytes(), run);
  const auto ns = now_ns() - start;
  std::ostringstream line;
  line << "ok ns=" << ns << " cpu_ns=" << cpu_ns() - cpu << " checked=0 bad=0";
  return line.str();
}

// The giver's half: commands come in, lines go out.
class Server {
 public:
  Server(const Program& program, Link& link)
      : program_(program), link_(link), player_(program, link) {}

  // False once there is nothing more to do.
  bool obey(const std::string& line) {
    if (line == "quit") return false;
    if (line == "hello") {
      say("ok name=" + program_.name + " what=" + program_.what + " sizes=" +
          std::to_string(program_.min_bytes) + "-" + std::to_string(program_.max_bytes));
    } else if (line.rfind("run ", 0) == 0) {
      say(run(line));
    } else if (!line.empty()) {
      say("error unknown command: " + line.substr(0, 80));
    }
    return true;
  }

  void quit() {
    if (broken_.empty()) player_.quit();
  }

 private:
  std::string run(const std::string& line) {
    if (!broken_.empty()) return "error broken by an earlier failure: " + broken_;
    Run wanted;
    try {
      wanted = parse_run(line, program_);
    } catch (const Failure& failure) {
      return std::string("error ") + failure.what();
    }
    try {
      return program_.alone ? run_alone(program_, wanted) : player_.give(wanted);
    } catch (const std::exception& failure) {
      link_.end_taker();
      broken_ = failure.what();
      std::replace(broken_.begin(), broken_.end(), '\n', ' ');
      return "error " + broken_;
    }
  }

  static void say(const std::string& line) { std::cout << line << std::endl; }

  const Program& program_;
  Link& link_;
  Player player_;
  std::string broken_;
};

}  // namespace

int serve(const Program& program) {
  try {
    Link link(program.shared_bytes);
    if (link.split() == Side::kTaker) return serve_taker(program, link);
    Server server(program, link);
    for (std::string line; std::getline(std::cin, line) && server.obey(line);) {
    }
    server.quit();
    return 0;
  } catch (const std::exception& failure) {
    std::cout << "error " << failure.what() << std::endl;
    return 1;
  }
}

}  // namespace limits
