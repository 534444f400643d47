#include <algorithm>
#include <atomic>

#include "ferry/math/variants_internal.h"

namespace ferry::math {
namespace {

Variant best_variant() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return Variant::kAvx512;
  if (__builtin_cpu_supports("avx2")) return Variant::kAvx2;
#endif
  return Variant::kPlain;
}

std::atomic<Variant>& chosen_variant() {
  static std::atomic<Variant> chosen = best_variant();
  return chosen;
}

}  // namespace

Variant variant() { return chosen_variant().load(std::memory_order_relaxed); }

void use_at_most(Variant most) { chosen_variant() = std::min(best_variant(), most); }

}  // namespace ferry::math
