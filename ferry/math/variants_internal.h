#pragma once

// One loop, compiled for several instruction sets; the best one that the processor has is picked
// when the program runs. No variant may contract a * b + c into one rounding (-ffp-contract=off),
// so that all of them give the same bits.
//
// FERRY_MATH_VARIANTS(type, name, (parameters), (arguments)) defines name(), from an always-inline
// function name_loop() in an unnamed namespace. Not by ifunc: sanitizers are not up yet when the
// loader picks.

#define FERRY_MATH_INLINE [[gnu::always_inline]] inline

// Iterations touch the same element of all arrays or different ones: arrays are equal or apart.
#if defined(__clang__)
#define FERRY_MATH_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define FERRY_MATH_APART _Pragma("GCC ivdep")
#endif

#if defined(__x86_64__)
#define FERRY_MATH_VARIANTS(type, name, parameters, arguments)                               \
  namespace {                                                                                \
  [[gnu::target("avx512f")]] type name##_avx512 parameters { return name##_loop arguments; } \
  [[gnu::target("avx2")]] type name##_avx2 parameters { return name##_loop arguments; }      \
  type name##_plain parameters { return name##_loop arguments; }                             \
  }                                                                                          \
  type name parameters {                                                                     \
    if (variant() == Variant::kAvx512) return name##_avx512 arguments;                       \
    if (variant() == Variant::kAvx2) return name##_avx2 arguments;                           \
    return name##_plain arguments;                                                           \
  }
#else
#define FERRY_MATH_VARIANTS(type, name, parameters, arguments) \
  type name parameters { return name##_loop arguments; }
#endif

namespace ferry::math {

enum class Variant { kPlain, kAvx2, kAvx512 };

// The best that the processor has, unless a test asked for less.
Variant variant();
// For tests: none better than this one from now on, in the whole process.
void use_at_most(Variant most);

}  // namespace ferry::math
