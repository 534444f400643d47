#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

// Mixed copies by several threads over several lanes, in both directions between arenas and own
// memory, against a model of what every byte must be.
class RandomOperations : public ContractTest {};

// One thread's part of the world: nobody else touches its memory.
class Player {
 public:
  Player(Device& here, Device& there, Channel channel, std::uint64_t seed)
      : channel_(std::move(channel)),
        random_(seed),
        remotes_{make_piece(there, kBytes), make_piece(there, kBytes, Memory::kOwn)},
        arena_(must(here.allocate(kBytes))),
        plain_(kBytes),
        models_{std::vector<std::byte>(kBytes), std::vector<std::byte>(kBytes)} {}

  // Runs about `count` operations in windows of a few at a time.
  void play(std::uint64_t count) {
    for (std::uint64_t done = 0; done < count;) {
      done += window();
      if (::testing::Test::HasFailure()) return;
    }
    for (std::size_t r = 0; r < remotes_.size(); ++r) {
      EXPECT_TRUE(std::ranges::equal(remotes_[r].bytes(), models_[r]));
    }
  }

 private:
  static constexpr std::size_t kSegments = 8;
  static constexpr std::size_t kSegmentBytes = 128UL << 10;
  static constexpr std::size_t kBytes = kSegments * kSegmentBytes;

  struct Move {
    bool write;
    std::size_t remote;
    std::size_t remote_at;
    std::span<std::byte> local;
    Transfer transfer;
  };

  std::size_t below(std::size_t bound) { return random_() % bound; }

  // Mostly small, sometimes a whole segment.
  std::size_t some_size() {
    std::size_t bits = below(18);
    return std::min(kSegmentBytes, below((1UL << bits) + 1));
  }

  std::uint64_t window() {
    std::vector<Move> moves;
    std::size_t count = 1 + below(kSegments);
    std::vector<fabric::Copy> together;
    bool as_one = below(4) == 0;
    for (std::size_t segment = 0; segment < count; ++segment) {
      moves.push_back(next_move(segment));
      Move& move = moves.back();
      if (move.write) stamp(move.local, random_());
      fabric::RemoteAt at(remotes_[move.remote].remote, move.remote_at);
      if (as_one) {
        together.push_back(
            {move.write ? fabric::Direction::kWrite : fabric::Direction::kRead, move.local, at});
      } else if (move.write) {
        move.transfer = channel_.write(move.local, at, {.deadline = soon()});
      } else {
        move.transfer = channel_.read(move.local, at, {.deadline = soon()});
      }
    }
    if (as_one) {
      EXPECT_EQ(code_of(channel_.copy(together, {.deadline = soon()}).wait()), Code::kOk);
    }
    for (auto& move : moves) settle(move);
    return count;
  }

  Move next_move(std::size_t segment) {
    Move move{.write = below(2) == 0,
              .remote = below(remotes_.size()),
              .remote_at = 0,
              .local = {},
              .transfer = {}};
    std::size_t size = some_size();
    move.remote_at = segment * kSegmentBytes + below(kSegmentBytes - size + 1);
    std::size_t local_at = segment * kSegmentBytes + below(kSegmentBytes - size + 1);
    auto memory = below(2) == 0 ? arena_.bytes() : std::span<std::byte>(plain_);
    move.local = memory.subspan(local_at, size);
    return move;
  }

  void settle(Move& move) {
    auto status = move.transfer.wait();
    ASSERT_TRUE(status) << status.error().to_string();
    auto known = std::span(models_[move.remote]).subspan(move.remote_at, move.local.size());
    if (move.write) {
      std::ranges::copy(move.local, known.begin());
      auto there = remotes_[move.remote].bytes().subspan(move.remote_at, move.local.size());
      ASSERT_TRUE(std::ranges::equal(there, known)) << "a write of " << known.size() << " bytes";
    } else {
      ASSERT_TRUE(std::ranges::equal(move.local, known))
          << "a read of " << known.size() << " bytes";
    }
  }

  Channel channel_;
  std::mt19937_64 random_;
  std::array<Piece, 2> remotes_;
  Region arena_;
  std::vector<std::byte> plain_;
  std::array<std::vector<std::byte>, 2> models_;
};

TEST_F(RandomOperations, MatchTheModel) {
  auto options = device_options();
  options.lanes_per_peer = 2;
  options.completion_queues = 2;
  options.arena_bytes = 32UL << 20;
  open(options, options);
  constexpr std::size_t kThreads = 4;
  std::vector<Ends> ends;
  std::vector<std::unique_ptr<Player>> players;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    ends.push_back(connect_more(a(), b()));
    bool forth = t % 2 == 0;
    players.push_back(std::make_unique<Player>(forth ? a() : b(), forth ? b() : a(),
                                               std::move(forth ? ends.back().ab : ends.back().ba),
                                               settings().seed * 1000 + t));
  }
  std::vector<std::thread> threads;
  for (auto& player : players) {
    threads.emplace_back([&] { player->play(settings().random_ops / kThreads); });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace ferry::contract
