#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The bytes that the pairs move: a pattern, stamped anew in every round so that a receiver can tell
// this round's data from the last round's.
namespace limits {

inline constexpr std::size_t kPage = 4096;

enum class Touch { kPages, kAll, kBytes };

// A tensor as the receiver has it. More than one piece only where the transport hands it out so.
using Pieces = std::span<const std::span<const std::byte>>;

// Writes the pattern of round 0.
void fill(std::span<std::byte> tensor);

// Marks the tensor with the round: its first and last word, and the first word of one page that
// changes from round to round. Three stores, so that the timed cost stays nothing. A tensor below
// 16 bytes has one mark, cut to what there is room for; neighbouring rounds' first two bytes
// differ.
void stamp(std::span<std::byte> tensor, std::uint64_t round);

// Writes every word anew, then marks the tensor: what a program does that computes it.
void produce(std::span<std::byte> tensor, std::uint64_t round);

// How many of the round's marks are not there.
std::uint64_t missing_stamps(Pieces tensor, std::uint64_t bytes, std::uint64_t round);

// Reads one byte per page, or one word per cache line, or takes the maximum of all as 32-bit
// floats. The result keeps the reads alive.
std::uint64_t read_through(Pieces tensor, Touch touch);

// How many bytes differ from what a tensor holds that was filled and then stamped in rounds
// 1..round, or was produced in that round. Bytes that are missing count as different.
std::uint64_t wrong_bytes(Pieces tensor, std::uint64_t bytes, std::uint64_t round,
                          bool produced = false);

}  // namespace limits
