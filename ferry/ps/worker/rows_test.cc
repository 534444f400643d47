#include <gtest/gtest.h>

#include <cstring>

#include "ferry/ps/worker/rows_internal.h"

namespace ferry::ps {
namespace {

constexpr std::uint64_t kFourFloats = 16;  // a row
constexpr std::uint64_t kSlotOfTwo = 64;   // has room for two rows and their keys

// Ten rows, the first six of them on one shard.
TensorLink rows_of_two_parts() {
  TensorLink tensor;
  tensor.info.name = "w";
  tensor.info.block_bytes = 2 * kFourFloats;
  tensor.info.runs = {{0, 0, 6 * kFourFloats}, {1, 6 * kFourFloats, 4 * kFourFloats}};
  tensor.bytes = 10 * kFourFloats;
  tensor.row_bytes = kFourFloats;
  tensor.parts.resize(2);
  for (std::size_t part = 0; part < 2; ++part) tensor.parts[part].run = tensor.info.runs[part];
  return tensor;
}

// The values of the n-th row that is pushed are n.
Bytes numbered_values(std::size_t rows) {
  Bytes values(rows * kFourFloats);
  for (std::size_t each = 0; each < values.size(); ++each)
    values[each] = static_cast<std::byte>(each / kFourFloats);
  return values;
}

// Which rows of the part a payload has, and which of the values that were pushed.
struct PackedRow {
  std::uint64_t key = 0;
  int value = 0;
  friend bool operator==(const PackedRow&, const PackedRow&) = default;
};

std::vector<PackedRow> unpack(const PushRecord& record) {
  std::vector<PackedRow> rows(record.count);
  EXPECT_EQ(record.rows->size(), record.count * (sizeof(std::uint64_t) + kFourFloats));
  for (std::size_t each = 0; each < record.count; ++each) {
    std::memcpy(&rows[each].key, record.rows->data() + each * sizeof(std::uint64_t),
                sizeof(std::uint64_t));
    const auto* values =
        record.rows->data() + record.count * sizeof(std::uint64_t) + each * kFourFloats;
    rows[each].value = static_cast<int>(values[0]);
    EXPECT_EQ(std::memcmp(values, values + 1, kFourFloats - 1), 0)
        << "values of two rows are mixed";
  }
  return rows;
}

TEST(RowsTest, NamesWhatCannotBePushed) {
  struct Case {
    std::vector<std::uint64_t> rows;
    std::uint64_t values;
    std::uint64_t slot_bytes;
    Code code;
  };
  const auto tensor = rows_of_two_parts();
  const Case cases[] = {
      {{0, 9}, 2 * kFourFloats, kSlotOfTwo, Code::kOk},
      {{}, 0, kSlotOfTwo, Code::kOk},
      {{0, 9}, kFourFloats, kSlotOfTwo, Code::kInvalidArgument},
      {{0, 10}, 2 * kFourFloats, kSlotOfTwo, Code::kOutOfRange},
      {{0},
       kFourFloats,
       kFourFloats + 7,
       Code::kUnimplemented},  // no slot has room for row and key
      {{0}, kFourFloats, kFourFloats + 8, Code::kOk},
  };
  for (const auto& each : cases) {
    const auto checked = check_rows(tensor, each.rows, each.values, each.slot_bytes);
    EXPECT_EQ(checked ? Code::kOk : checked.error().code(), each.code)
        << each.rows.size() << " rows, " << each.values << " bytes, slots of " << each.slot_bytes;
  }
  auto split = rows_of_two_parts();
  split.info.block_bytes = kFourFloats + 8;  // a row would be in two blocks
  EXPECT_EQ(check_rows(split, cases[0].rows, 2 * kFourFloats, kSlotOfTwo).error().code(),
            Code::kUnimplemented);
}

TEST(RowsTest, GoToTheirPartsInOrderAndEqualOnesStayInTheirs) {
  const std::vector<std::uint64_t> rows = {7, 5, 9, 5};
  const auto packed = pack_rows(rows_of_two_parts(), 3, rows, numbered_values(4), kSlotOfTwo);
  ASSERT_EQ(packed.size(), 2U);
  EXPECT_EQ(packed[0].part, 0U);
  EXPECT_EQ(unpack(packed[0]), (std::vector<PackedRow>{{5, 1}, {5, 3}}));
  EXPECT_EQ(packed[1].part, 1U);
  EXPECT_EQ(unpack(packed[1]), (std::vector<PackedRow>{{1, 0}, {3, 2}})) << "counted in the part";
  for (const auto& each : packed) EXPECT_EQ(each.parameter, 3U);
}

TEST(RowsTest, ThatDoNotFitInOneSlotTakeMore) {
  const std::vector<std::uint64_t> rows = {4, 3, 2, 1, 0};
  const auto packed = pack_rows(rows_of_two_parts(), 0, rows, numbered_values(5), kSlotOfTwo);
  ASSERT_EQ(packed.size(), 3U);
  EXPECT_EQ(unpack(packed[0]), (std::vector<PackedRow>{{0, 4}, {1, 3}}));
  EXPECT_EQ(unpack(packed[1]), (std::vector<PackedRow>{{2, 2}, {3, 1}}));
  EXPECT_EQ(unpack(packed[2]), (std::vector<PackedRow>{{4, 0}}));
  for (const auto& each : packed) EXPECT_LE(each.rows->size(), kSlotOfTwo);
}

}  // namespace
}  // namespace ferry::ps
