#include <algorithm>
#include <cstring>

#include "ferry/base/stall.h"
#include "ferry/ps/worker/puller_internal.h"

// Paths that map nothing: head, wait, payload, wait, head.

namespace ferry::ps {
namespace {

using Direction = fabric::Direction;

std::span<std::byte> bytes_of(Head& head) { return std::as_writable_bytes(std::span(&head, 1)); }

bool same_stamp(const Head& before, const Head& after) {
  const auto plane = Head::plane_of(before.current);
  return plane < kPlanes && before.stamps[plane] == Head::version_of(before.current) &&
         after.stamps[plane] == before.stamps[plane];
}

}  // namespace

Result<std::uint64_t> Puller::read_version(const PartLink& part, Deadline deadline) {
  if (part.mapped != nullptr) return Head::version_of(load_word(part.mapped, part.layout.head(0)));
  Head head;
  FERRY_TRY(
      members_.await(part.link->server(),
                     part.link->channel().read(bytes_of(head), {part.table, part.layout.head(0)},
                                               {.deadline = deadline}),
                     deadline));
  return Head::version_of(head.current);
}

Result<bool> Puller::read(const PartLink& part, std::span<std::byte> out, Deadline deadline) {
  auto& channel = part.link->channel();
  const auto server = part.link->server();
  const auto count = part.layout.blocks();
  std::vector<Head> before(count);
  std::vector<Head> after(count);
  std::vector<std::uint32_t> left(count);
  for (std::uint32_t block = 0; block < count; ++block) left[block] = block;
  std::vector<fabric::Copy> copies;
  while (!left.empty()) {
    const auto first = left.front();
    const auto some = left.back() - first + 1;
    const auto heads = [&](std::vector<Head>& into) {
      return channel.read(std::as_writable_bytes(std::span(into).subspan(first, some)),
                          {part.table, part.layout.head(first)}, {.deadline = deadline});
    };
    FERRY_TRY(members_.await(server, heads(before), deadline));
    copies.clear();
    for (const auto block : left) {
      if (before[block].current == 0) return false;
      const auto plane = std::min(Head::plane_of(before[block].current), kPlanes - 1);
      const auto at = block * part.layout.block_bytes;
      copies.push_back({Direction::kRead,
                        out.subspan(at, part.layout.bytes_of(block)),
                        {part.table, part.layout.plane(plane) + at}});
    }
    stall_for_tests(StallPoint::kReadBlocks);
    FERRY_TRY(members_.await(server, channel.copy(copies, {.deadline = deadline}), deadline));
    FERRY_TRY(members_.await(server, heads(after), deadline));
    std::erase_if(left, [&](auto block) { return same_stamp(before[block], after[block]); });
    context_.stats.torn_reads += left.size();
    if (deadline.expired() && !left.empty())
      return fail(Code::kDeadlineExceeded, "worker {}: {} blocks changed while they were read",
                  context_.rank, left.size());
  }
  return true;
}

Result<bool> Puller::read_rows(const PartLink& part, std::span<const RowAt> rows,
                               Deadline deadline) {
  auto& channel = part.link->channel();
  const auto server = part.link->server();
  std::vector<std::size_t> left(rows.size());
  for (std::size_t each = 0; each < rows.size(); ++each) left[each] = each;
  std::vector<Head> before(rows.size());
  std::vector<Head> after(rows.size());
  std::vector<fabric::Copy> copies;
  const auto block_of = [&](std::size_t row) {
    return static_cast<std::uint32_t>(rows[row].offset / part.layout.block_bytes);
  };
  const auto read_heads = [&](std::vector<Head>& into) {
    copies.clear();
    for (const auto row : left)
      copies.push_back(
          {Direction::kRead, bytes_of(into[row]), {part.table, part.layout.head(block_of(row))}});
    return members_.await(server, channel.copy(copies, {.deadline = deadline}), deadline);
  };
  while (!left.empty()) {
    FERRY_TRY(read_heads(before));
    copies.clear();
    for (const auto row : left) {
      if (before[row].current == 0) return false;
      const auto plane = std::min(Head::plane_of(before[row].current), kPlanes - 1);
      copies.push_back({Direction::kRead,
                        rows[row].out,
                        {part.table, part.layout.plane(plane) + rows[row].offset}});
    }
    stall_for_tests(StallPoint::kReadBlocks);
    FERRY_TRY(members_.await(server, channel.copy(copies, {.deadline = deadline}), deadline));
    FERRY_TRY(read_heads(after));
    std::erase_if(left, [&](auto row) { return same_stamp(before[row], after[row]); });
    context_.stats.torn_reads += left.size();
    if (deadline.expired() && !left.empty())
      return fail(Code::kDeadlineExceeded, "worker {}: {} rows changed while they were read",
                  context_.rank, left.size());
  }
  return true;
}

}  // namespace ferry::ps
