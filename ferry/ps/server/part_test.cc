#include <gtest/gtest.h>

#include "ferry/ps/server/part_internal.h"

namespace ferry::ps {
namespace {

constexpr std::uint64_t kPartBytes = 4096;

TensorInfo one_block() {
  return {.id = 1,
          .name = "w",
          .spec = {tensor::ElementType::kF32, tensor::Shape::of({kPartBytes / 4}).value()},
          .update = {UpdateKind::kSum},
          .block_bytes = kPartBytes,
          .runs = {{.shard = 0, .offset = 0, .bytes = kPartBytes}}};
}

// A reader dies while it copies, and so holds every version from that time on.
TEST(PartTest, TheDeadAreTakenOffTheirSeats) {
  fabric::Options options;
  options.provider = "shm";
  options.secret = "a secret that only this test has";
  auto device = fabric::Device::open(options).value();
  auto part = Part::make(device, one_block(), 0, {.workers = 2}, nullptr).value();
  const std::vector<float> ones(kPartBytes / 4, 1.0F);
  const auto* bytes = reinterpret_cast<const std::byte*>(ones.data());
  part->assign(0, bytes);
  auto* seat = part->seats().data() + sizeof(Seat) + offsetof(Seat, copying);
  word_at(seat, offsetof(Seat::Lease, end)).store(Seat::looking_of(1));
  word_at(seat).store(Seat::word_of(1, load_word(part->table().data())));
  int looks = 0;
  part->while_blocked([&] {
    if (++looks == 2) part->clear_seat(1);
  });
  const Source source{.rank = 0, .data = bytes};
  for (int each = 0; each < 4; ++each) part->apply(0, {&source, 1}, 1);
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(load_word(seat), 0U);
  const auto image = part->image();
  EXPECT_EQ(reinterpret_cast<const float*>(image.values.data())[7], 5.0F);
}

}  // namespace
}  // namespace ferry::ps
