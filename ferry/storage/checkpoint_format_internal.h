#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferry/tensor/descriptor.h"

namespace ferry::storage {

using Digest = std::array<std::byte, 32>;
Digest digest_of(std::span<const std::byte> bytes);

// One tensor in the table of a checkpoint file (docs/wire/checkpoint.md).
struct Entry {
  std::string name;
  tensor::Spec spec;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
  Digest digest{};
};

struct Table {
  std::uint64_t step = 0;
  std::vector<Entry> entries;
};

constexpr std::uint64_t kPayloadAlignment = 64;
constexpr std::size_t kMostName = 4096;

// What comes before the payloads: header, entries, digest of both.
std::vector<std::byte> table_bytes(const Table& table);
// How long that is for these names, so that offsets can be known.
std::uint64_t table_length(std::span<const Entry> entries);
// From bytes that cannot be trusted, the whole file's: kDataLoss says what is wrong with them.
Result<Table> parse_table(std::span<const std::byte> file);

}  // namespace ferry::storage
