#include "bench/limits/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bench/limits/link.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace limits {
namespace {

#if defined(__x86_64__)

constexpr std::size_t kBlock = 256;

__attribute__((target("avx512f"))) void stream_512(std::byte* to, const std::byte* from,
                                                   std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kBlock) {
    const auto a = _mm512_loadu_si512(from + i);
    const auto b = _mm512_loadu_si512(from + i + 64);
    const auto c = _mm512_loadu_si512(from + i + 128);
    const auto d = _mm512_loadu_si512(from + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 192), d);
  }
}

__attribute__((target("avx2"))) void stream_256(std::byte* to, const std::byte* from,
                                                std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 128) {
    const auto a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const auto b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    const auto c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 64));
    const auto d = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 96));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), b);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 64), c);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 96), d);
  }
}

using Stream = void (*)(std::byte*, const std::byte*, std::size_t);

Stream best_stream() {
  if (__builtin_cpu_supports("avx512f")) return stream_512;
  if (__builtin_cpu_supports("avx2")) return stream_256;
  return nullptr;
}

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  static const Stream best = best_stream();
  const auto misaligned = reinterpret_cast<std::uintptr_t>(to) % 64;
  const auto head = std::min(bytes, misaligned == 0 ? 0 : 64 - misaligned);
  const auto middle = best == nullptr ? 0 : (bytes - head) / kBlock * kBlock;
  std::memcpy(to, from, head);
  if (middle > 0) best(to + head, from + head, middle);
  std::memcpy(to + head + middle, from + head + middle, bytes - head - middle);
  _mm_sfence();
}

#else

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace

Copy copy_named(const std::string& name) {
  if (name == "plain") return Copy::kPlain;
  if (name == "nt") return Copy::kStream;
  throw Failure("--copy is plain or nt, not " + name);
}

void copy(Copy how, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (how == Copy::kStream) {
    stream(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace limits
