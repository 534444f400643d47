// Data path.
#include "ferry/base/copy.h"

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ferry {

namespace {

void copy_plain(std::byte* to, const std::byte* from, std::size_t length) {
  std::memcpy(to, from, length);
}

#if defined(__x86_64__)

constexpr std::size_t kLine = 64;

// Copies up to the first line boundary of the destination, so that streams write whole lines.
std::size_t align_destination(std::byte*& to, const std::byte*& from, std::size_t length) {
  std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  if (head > length) head = length;
  std::memcpy(to, from, head);
  to += head;
  from += head;
  return length - head;
}

void copy_sse2(std::byte* to, const std::byte* from, std::size_t length) {
  length = align_destination(to, from, length);
  for (; length >= kLine; length -= kLine, to += kLine, from += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from);
    auto* out = reinterpret_cast<__m128i*>(to);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
  }
  _mm_sfence();
  std::memcpy(to, from, length);
}

__attribute__((target("avx2"))) void copy_avx2(std::byte* to, const std::byte* from,
                                               std::size_t length) {
  length = align_destination(to, from, length);
  for (; length >= 2 * kLine; length -= 2 * kLine, to += 2 * kLine, from += 2 * kLine) {
    const auto* in = reinterpret_cast<const __m256i*>(from);
    auto* out = reinterpret_cast<__m256i*>(to);
    __m256i a = _mm256_loadu_si256(in);
    __m256i b = _mm256_loadu_si256(in + 1);
    __m256i c = _mm256_loadu_si256(in + 2);
    __m256i d = _mm256_loadu_si256(in + 3);
    _mm256_stream_si256(out, a);
    _mm256_stream_si256(out + 1, b);
    _mm256_stream_si256(out + 2, c);
    _mm256_stream_si256(out + 3, d);
  }
  _mm_sfence();
  std::memcpy(to, from, length);
}

__attribute__((target("avx512f"))) void copy_avx512(std::byte* to, const std::byte* from,
                                                    std::size_t length) {
  length = align_destination(to, from, length);
  for (; length >= 4 * kLine; length -= 4 * kLine, to += 4 * kLine, from += 4 * kLine) {
    const auto* in = reinterpret_cast<const __m512i*>(from);
    auto* out = reinterpret_cast<__m512i*>(to);
    __m512i a = _mm512_loadu_si512(in);
    __m512i b = _mm512_loadu_si512(in + 1);
    __m512i c = _mm512_loadu_si512(in + 2);
    __m512i d = _mm512_loadu_si512(in + 3);
    _mm512_stream_si512(out, a);
    _mm512_stream_si512(out + 1, b);
    _mm512_stream_si512(out + 2, c);
    _mm512_stream_si512(out + 3, d);
  }
  _mm_sfence();
  std::memcpy(to, from, length);
}

#endif

struct Variants {
  CopyVariant all[4];
  std::size_t count = 0;

  Variants() {
    add("plain", copy_plain);
#if defined(__x86_64__)
    add("sse2", copy_sse2);
    if (__builtin_cpu_supports("avx2")) add("avx2", copy_avx2);
    if (__builtin_cpu_supports("avx512f")) add("avx512", copy_avx512);
#endif
  }
  void add(const char* name, void (*copy)(std::byte*, const std::byte*, std::size_t)) {
    all[count++] = {name, copy};
  }
};

const Variants& variants() {
  static const Variants made;
  return made;
}

}  // namespace

const CopyVariant* copy_variants(std::size_t& count) {
  count = variants().count;
  return variants().all;
}

void copy_streaming(std::byte* to, const std::byte* from, std::size_t length) {
  static const auto best = variants().all[variants().count - 1].copy;
  best(to, from, length);
}

}  // namespace ferry
