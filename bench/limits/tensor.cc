#include "bench/limits/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace limits {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kWordsPerPage = kPage / kWord;
constexpr std::uint64_t kLine = 64;

std::uint64_t pattern(std::uint64_t index) { return (index + 1) * 0x9E3779B97F4A7C15ULL; }
std::uint64_t mark(std::uint64_t round) { return (round << 8 | 0x5A) * 0xD6E8FEB86659FD93ULL; }

// Too small for two words: one mark, cut to what there is room for.
bool tiny(std::uint64_t bytes) { return bytes < 2 * kWord; }

std::uint64_t pages_of(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage; }
// The last page may be too short for a whole word; it then has no mark of its own.
std::uint64_t markable_pages(std::uint64_t bytes) { return (bytes - kWord) / kPage + 1; }
std::uint64_t last_word(std::uint64_t bytes) { return (bytes / kWord - 1) * kWord; }

void store(std::byte* at, std::uint64_t value) { std::memcpy(at, &value, sizeof value); }
std::uint64_t load(const std::byte* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The word at a byte offset, also where two pieces share it; zeros follow the tensor's end.
std::uint64_t word_at(Pieces tensor, std::uint64_t offset) {
  if (tensor.size() == 1 && offset + kWord <= tensor[0].size())
    return load(tensor[0].data() + offset);
  std::array<std::byte, kWord> word{};
  std::size_t have = 0;
  for (auto piece : tensor) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    auto count = std::min<std::size_t>(kWord - have, piece.size() - offset);
    std::memcpy(word.data() + have, piece.data() + offset, count);
    have += count;
    if (have == kWord) break;
    offset = 0;
  }
  return load(word.data());
}

// What page `index` holds after `round` rounds; a produced tensor has the marks of the last alone.
void expected_page(std::array<std::uint64_t, kWordsPerPage>& page, std::uint64_t index,
                   std::uint64_t bytes, std::uint64_t round, bool produced = false) {
  for (std::uint64_t i = 0; i < kWordsPerPage; ++i) page[i] = pattern(index * kWordsPerPage + i);
  if (round == 0) return;
  if (tiny(bytes)) {
    page[0] = mark(round);
    return;
  }
  const auto pages = markable_pages(bytes);
  if (index == 0) {
    page[0] = mark(round);
  } else if (index < pages) {
    const auto since = (round % pages + pages - index) % pages;
    if (round > since && (!produced || since == 0)) page[0] = mark(round - since);
  }
  const auto last = last_word(bytes);
  if (last / kPage == index) page[last % kPage / kWord] = mark(round);
}

std::uint64_t differences(const std::byte* a, const std::byte* b, std::size_t count) {
  if (std::memcmp(a, b, count) == 0) return 0;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += a[i] != b[i];
  return wrong;
}

}  // namespace

void fill(std::span<std::byte> tensor) {
  std::array<std::uint64_t, kWordsPerPage> page;
  for (std::uint64_t i = 0; i < pages_of(tensor.size()); ++i) {
    expected_page(page, i, tensor.size(), 0);
    std::memcpy(tensor.data() + i * kPage, page.data(), std::min(kPage, tensor.size() - i * kPage));
  }
}

void stamp(std::span<std::byte> tensor, std::uint64_t round) {
  const auto value = mark(round);
  if (tiny(tensor.size())) {
    std::memcpy(tensor.data(), &value, std::min<std::size_t>(tensor.size(), kWord));
    return;
  }
  store(tensor.data() + round % markable_pages(tensor.size()) * kPage, value);
  store(tensor.data(), value);
  store(tensor.data() + last_word(tensor.size()), value);
}

void produce(std::span<std::byte> tensor, std::uint64_t round) {
  auto* at = tensor.data();
  auto value = pattern(0);
  const auto step = pattern(0);
  for (auto* end = at + tensor.size() / kWord * kWord; at != end; at += kWord, value += step)
    store(at, value);
  if (const auto rest = tensor.size() % kWord; rest != 0) std::memcpy(at, &value, rest);
  stamp(tensor, round);
}

std::uint64_t missing_stamps(Pieces tensor, std::uint64_t bytes, std::uint64_t round) {
  auto value = mark(round);
  if (tiny(bytes)) {
    if (bytes < kWord) value &= (std::uint64_t{1} << 8 * bytes) - 1;
    return word_at(tensor, 0) != value;
  }
  std::uint64_t missing = word_at(tensor, 0) != value;
  missing += word_at(tensor, round % markable_pages(bytes) * kPage) != value;
  return missing + (word_at(tensor, last_word(bytes)) != value);
}

namespace {

// Four floats at a time, as every processor of this kind can.
using Floats [[gnu::vector_size(16)]] = float;

Floats greater(Floats a, Floats b) {
#if defined(__SSE__)
  return __builtin_ia32_maxps(a, b);
#else
  return a > b ? a : b;
#endif
}

// Bits that are no number are never the greater: whatever the bytes are, each is looked at once.
std::uint64_t reduce_max(std::span<const std::byte> bytes) {
  std::array<Floats, 4> most{};
  const auto* at = bytes.data();
  const auto* end = at + bytes.size() / sizeof most * sizeof most;
  for (; at != end; at += sizeof most) {
    std::array<Floats, 4> next;
    std::memcpy(&next, at, sizeof next);
    for (std::size_t i = 0; i < 4; ++i) most[i] = greater(next[i], most[i]);
  }
  const auto all = greater(greater(most[0], most[1]), greater(most[2], most[3]));
  const auto result = std::max({all[0], all[1], all[2], all[3]});
  std::uint32_t bits = 0;
  std::memcpy(&bits, &result, sizeof bits);
  for (; at != bytes.data() + bytes.size(); ++at) bits += std::to_integer<unsigned>(*at);
  return bits;
}

}  // namespace

std::uint64_t read_through(Pieces tensor, Touch touch) {
  std::uint64_t sum = 0;
  if (touch == Touch::kBytes) {
    for (auto piece : tensor) sum += reduce_max(piece);
    return sum;
  }
  for (auto piece : tensor) {
    const auto* bytes = piece.data();
    if (touch == Touch::kPages) {
      for (std::size_t i = 0; i < piece.size(); i += kPage)
        sum += std::to_integer<unsigned>(bytes[i]);
    } else {
      for (std::size_t i = 0; i + kWord <= piece.size(); i += kLine) sum += load(bytes + i);
    }
  }
  return sum;
}

std::uint64_t wrong_bytes(Pieces tensor, std::uint64_t bytes, std::uint64_t round, bool produced) {
  std::array<std::uint64_t, kWordsPerPage> page;
  std::uint64_t at = 0;
  std::uint64_t wrong = 0;
  for (auto piece : tensor) {
    while (!piece.empty() && at < bytes) {
      const auto inside = at % kPage;
      if (inside == 0) expected_page(page, at / kPage, bytes, round, produced);
      const auto count = std::min<std::uint64_t>({kPage - inside, piece.size(), bytes - at});
      wrong += differences(piece.data(), std::as_bytes(std::span(page)).data() + inside, count);
      piece = piece.subspan(count);
      at += count;
    }
  }
  return wrong + (bytes - at);
}

}  // namespace limits
