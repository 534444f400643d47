#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/shm/job_internal.h"

namespace ferry::fabric::shm {
namespace {

// One mapping for both ends: two would hide from the thread sanitizer that they meet.
struct TwoViews {
  Fd fd = *sealed_memfd("job-test", 4096);
  Mapping mapping = *Mapping::shared(fd.get(), 4096);
  Job& writer() { return *reinterpret_cast<Job*>(mapping.data()); }
  Job& helper() { return *reinterpret_cast<Job*>(mapping.data()); }
};

TEST(Job, EveryPieceIsCopiedOnceWhoeverClaimsIt) {
  TwoViews views;
  constexpr std::size_t kSize = 100'003;
  constexpr std::uint32_t kPiece = 1000;
  std::vector<std::byte> from(kSize);
  std::vector<std::byte> to(kSize);
  std::atomic<bool> stop{false};
  std::thread helper([&] {
    while (!stop.load()) {
      auto seen = look_at_job(views.helper());
      if (!seen) continue;
      Share share{to.data(), from.data(), seen->length, seen->piece, seen->streaming};
      help(views.helper(), *seen, share, 3);
    }
  });
  for (int round = 1; round <= 200; ++round) {
    std::fill(from.begin(), from.end(), static_cast<std::byte>(round));
    Share share{to.data(), from.data(), kSize, kPiece, round % 2 == 0};
    JobView what;
    what.length = kSize;
    what.piece = kPiece;
    what.streaming = share.streaming;
    auto generation = open_job(views.writer(), what);
    auto mine = copy_pieces(views.writer().ticket, generation, share);
    ASSERT_LE(mine, share.pieces());
    while (finished_by_helpers(views.writer(), generation) < share.pieces() - mine) cpu_relax();
    EXPECT_EQ(finished_by_helpers(views.writer(), generation), share.pieces() - mine);
    ASSERT_EQ(to, from) << "round " << round;
  }
  stop.store(true);
  helper.join();
}

TEST(Job, NothingIsClaimedFromAnOldOrHostileJob) {
  TwoViews views;
  EXPECT_FALSE(look_at_job(views.helper()));  // never opened
  JobView what;
  what.length = 100;
  what.piece = 10;
  open_job(views.writer(), what);
  auto seen = look_at_job(views.helper());
  ASSERT_TRUE(seen);
  open_job(views.writer(), what);
  std::vector<std::byte> bytes(100);
  Share share{bytes.data(), bytes.data(), seen->length, seen->piece, seen->streaming};
  EXPECT_EQ(help(views.helper(), *seen, share, 1), 0U);  // of the job before
  views.writer().piece.store(0);
  EXPECT_FALSE(look_at_job(views.helper()));
  views.writer().piece.store(1);
  views.writer().length.store(~std::uint64_t{0});  // more pieces than a ticket can count
  EXPECT_FALSE(look_at_job(views.helper()));
}

}  // namespace
}  // namespace ferry::fabric::shm
