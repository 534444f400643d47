#include "bench/driver/measure.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

constexpr double kRunNs = 50e6;
constexpr std::uint64_t kLeastRounds = 3;
constexpr std::uint64_t kMostRounds = 1'000'000;
// From here on a few rounds take long enough; looking for their number would only cost time.
constexpr std::uint64_t kLarge = std::uint64_t{256} << 20;

struct Player {
  const Variant* variant;
  RoundHello hello;
  cli::ChildProgram child;
  // A program that failed once is not asked again.
  bool dead = false;
};

class Session {
 public:
  Session(const Plan& plan, const OnProgress& on_progress, Measurements& out)
      : plan_(plan), on_progress_(on_progress), out_(out) {}

  void start_all() {
    for (const auto& variant : out_.variants) {
      if (cli::InterruptGuard::interrupted()) return;
      auto player = start(variant);
      if (player) {
        players_.push_back(*std::move(player));
      } else if (noted_.insert(player.error().message()).second) {
        out_.notes.push_back(player.error().message());
      }
    }
  }

  void measure_all() {
    for (std::size_t i = 0; i < plan_.sizes.size() && !over(); ++i) measure_size(i);
  }

  void stop_all() {
    for (auto& player : players_) {
      if (over() || player.dead) {
        player.child.kill_now();
      } else {
        player.child.stop();
      }
    }
  }

 private:
  bool over() { return out_.interrupted = out_.interrupted || cli::InterruptGuard::interrupted(); }

  Result<std::string> program_of(const Variant& variant) const {
    if (variant.program.empty()) return plan_.self;
    return find_program(variant.program, variant.selector, plan_.folders);
  }

  Result<Player> start(const Variant& variant) const {
    const auto program = FERRY_TRY(program_of(variant));
    auto child = FERRY_TRY(cli::ChildProgram::start(program, variant.args, cli::Complaints::kToOurs,
                                                    variant.settings));
    auto answer = child.ask("hello", Deadline::after(20s));
    auto hello = answer ? parse_hello(*answer) : tl::unexpected<Error>(answer.error());
    if (!hello)
      return fail(hello.error().code(), "{} is left out: {}", variant.title,
                  hello.error().message());
    return Player{&variant, *std::move(hello), std::move(child), false};
  }

  void measure_size(std::size_t index) {
    const auto size = plan_.sizes[index];
    const auto started = now_ns();
    const auto share = share_of(index);
    auto turn = able(size);
    report(index, 0, "");
    for (auto* player : turn) choose_rounds(*player, size);
    for (int repetition = 0; repetition < plan_.repeat && !over(); ++repetition) {
      if (repetition > 0 && now_ns() - started > share) {
        note("{}: {} of {} repetitions fit into the time", cli::size_text(size), repetition,
             plan_.repeat);
        return;
      }
      for (auto* player : turn) {
        if (over()) return;
        report(index, repetition, player->variant->title);
        repeat_once(*player, size);
      }
      // Whoever comes first finds the caches in another state than whoever comes last.
      if (!turn.empty()) std::rotate(turn.begin(), turn.begin() + 1, turn.end());
    }
  }

  // What is left of the time, shared among the sizes that are left; large ones get more.
  std::int64_t share_of(std::size_t index) const {
    double all = 0;
    for (auto i = index; i < plan_.sizes.size(); ++i) all += weight(plan_.sizes[i]);
    const double left = plan_.seconds * 1e9 - static_cast<double>(now_ns() - begun_);
    return static_cast<std::int64_t>(std::max(left, 0.0) * weight(plan_.sizes[index]) / all);
  }
  static double weight(std::uint64_t size) { return 1 + static_cast<double>(size) / (32 << 20); }

  // The players that can take this size; says why the others cannot.
  std::vector<Player*> able(std::uint64_t size) {
    std::vector<Player*> turn;
    const auto memory = static_cast<double>(available_memory());
    for (auto& player : players_) {
      const auto& variant = *player.variant;
      if (size < variant.min_bytes || size > variant.max_bytes || player.dead) continue;
      const double need = variant.memory * static_cast<double>(size) + (64 << 20);
      if (size < player.hello.min_bytes || size > player.hello.max_bytes) {
        leave_out(player, size,
                  fmt::format("takes {} to {}", cli::size_text(player.hello.min_bytes),
                              cli::size_text(player.hello.max_bytes)));
      } else if (memory > 0 && need > memory) {
        leave_out(player, size,
                  fmt::format("needs about {} of memory, {} are free",
                              cli::size_text(static_cast<std::uint64_t>(need) >> 20 << 20),
                              cli::size_text(static_cast<std::uint64_t>(memory) >> 20 << 20)));
      } else {
        turn.push_back(&player);
      }
    }
    return turn;
  }

  void leave_out(Player& player, std::uint64_t size, const std::string& why) {
    cell(player, size).left_out = why;
    note("{} at {} is left out: {}", player.variant->title, cli::size_text(size), why);
  }

  // Raises the rounds until a run takes about long enough to be measured well.
  void choose_rounds(Player& player, std::uint64_t size) {
    auto& rounds = cell(player, size).rounds;
    rounds = kLeastRounds;
    for (int tries = 0; size < kLarge && tries < 4 && !over(); ++tries) {
      const auto result = run(player, size, rounds);
      if (!result) return;
      const double wanted = kRunNs / std::max(result->ns / static_cast<double>(rounds), 1.0);
      const auto most = std::min(kMostRounds, rounds * 100);
      const auto next = std::clamp(static_cast<std::uint64_t>(wanted), kLeastRounds, most);
      const bool enough = result->ns > kRunNs / 4;
      rounds = next;
      if (enough) return;
    }
  }

  void repeat_once(Player& player, std::uint64_t size) {
    auto& target = cell(player, size);
    const auto result = run(player, size, target.rounds);
    if (!result) return;
    const auto rounds = static_cast<double>(target.rounds);
    target.ns.push_back(result->ns / rounds);
    target.cpu_ns.push_back(result->cpu_ns / rounds);
  }

  std::optional<RoundResult> run(Player& player, std::uint64_t size, std::uint64_t rounds) {
    if (player.dead) return std::nullopt;
    const RoundOrder order{size, rounds, plan_.work, player.variant->wait == Wait::kSleep};
    auto answer = player.child.ask(run_line(order), Deadline::after(180s));
    auto result = answer ? parse_result(*answer) : tl::unexpected<Error>(answer.error());
    if (!result) {
      if (over()) return std::nullopt;
      player.dead = true;
      leave_out(player, size, result.error().message());
      return std::nullopt;
    }
    out_.checked_bytes += result->checked;
    if (result->bad > 0) {
      out_.bad += result->bad;
      player.dead = true;
      leave_out(player, size, fmt::format("WRONG DATA: {} mismatches", result->bad));
      return std::nullopt;
    }
    return *result;
  }

  Cell& cell(const Player& player, std::uint64_t size) {
    return out_.cells[{player.variant->id, size}];
  }

  void report(std::size_t index, int repetition, const std::string& variant) const {
    on_progress_(
        {index, plan_.sizes.size(), plan_.sizes[index], repetition, plan_.repeat, variant});
  }

  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    out_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  const Plan& plan_;
  const OnProgress& on_progress_;
  Measurements& out_;
  std::vector<Player> players_;
  std::set<std::string> noted_;
  std::int64_t begun_ = now_ns();
};

}  // namespace

const Cell* Measurements::cell(const std::string& variant, std::uint64_t size) const {
  const auto found = cells.find({variant, size});
  return found == cells.end() || found->second.ns.empty() ? nullptr : &found->second;
}

Measurements measure(const Plan& plan, const OnProgress& on_progress) {
  Measurements out;
  out.variants = plan.variants;
  out.sizes = plan.sizes;
  out.work = plan.work;
  out.targets = plan.targets;
  const auto begun = now_ns();
  Session session(plan, on_progress, out);
  session.start_all();
  session.measure_all();
  session.stop_all();
  out.seconds = static_cast<double>(now_ns() - begun) / 1e9;
  return out;
}

std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    std::uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace ferry::bench
