#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "ferry/fabric/shm/across_internal.h"

namespace ferry::fabric::shm {
namespace {

class CopyFromProcess : public ::testing::Test {
 protected:
  // Whether all bytes came, as they are here.
  bool copies(std::int32_t pid, const GrantTable::Mark& mark) {
    std::vector<std::byte> got(bytes_.size());
    auto address = reinterpret_cast<std::uint64_t>(bytes_.data());
    auto copied = copy_from_process(pid, mark, got, address);
    EXPECT_TRUE(copied == 0 || got == bytes_);
    return copied == got.size();
  }
  const std::unique_ptr<GrantTable> table_ = *GrantTable::create();
  const std::vector<std::byte> bytes_ = std::vector<std::byte>(100'000, std::byte{7});
};

TEST_F(CopyFromProcess, ReadsTheOwner) {
  if (!copies(getpid(), table_->mark())) GTEST_SKIP() << "the kernel allows no process_vm_readv";
  auto seen_by_peer = *GrantTable::map(Fd(dup(table_->fd())));
  EXPECT_TRUE(copies(getpid(), seen_by_peer->mark()));
}

TEST_F(CopyFromProcess, KnowsAnotherAddressSpaceByItsMark) {
  auto other = table_->mark();
  other.value ^= 2;
  EXPECT_FALSE(copies(getpid(), other));
  other = table_->mark();
  other.address = 4096;  // never mapped
  EXPECT_FALSE(copies(getpid(), other));
}

// The same bytes lie at the same address there, but are not the owner's.
TEST_F(CopyFromProcess, RefusesAChildOfTheOwner) {
  auto child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(copies(child, table_->mark()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(copies(child, table_->mark()));  // nobody is there
}

}  // namespace
}  // namespace ferry::fabric::shm
