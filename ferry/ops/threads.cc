#include "ferry/ops/threads.h"

#include <atomic>

#include "ferry/base/counters.h"
#include "ferry/ops/threads_internal.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// libgomp, which oneDNN computes with. Its own names instead of pragmas: our loops run on the
// threads that oneDNN has started already, whichever compiler made them.
extern "C" {
void omp_set_num_threads(int count);
int omp_get_max_threads();
int omp_get_thread_num();
int omp_get_num_threads();
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
}

namespace ferry::ops {
namespace {

std::atomic<unsigned>& thread_count() {
  static std::atomic<unsigned> count = static_cast<unsigned>(std::max(1, omp_get_max_threads()));
  return count;
}

Counter reorder_count;
Counter reorder_bytes;

struct Region {
  void (*body)(void*, unsigned);
  void* data;
  unsigned parts;
};

// The thread sanitizer does not see how libgomp waits.
void tell_begin([[maybe_unused]] void* region) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(region);
#endif
}
void tell_end([[maybe_unused]] void* region) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(region);
#endif
}

void run_part(void* data) {
  tell_end(data);
  auto& region = *static_cast<Region*>(data);
  // The team may be smaller than was asked for.
  const auto team = static_cast<unsigned>(omp_get_num_threads());
  for (auto part = static_cast<unsigned>(omp_get_thread_num()); part < region.parts; part += team)
    region.body(region.data, part);
  tell_begin(data);
}

}  // namespace

void set_threads(unsigned count) { thread_count() = std::max(1U, count); }
unsigned threads() { return thread_count().load(std::memory_order_relaxed); }

Reorders reorders() { return {reorder_count.get(), reorder_bytes.get()}; }

void count_reorder(std::uint64_t bytes) {
  reorder_count.add();
  reorder_bytes.add(bytes);
}

void use_threads() {
  static thread_local unsigned used = 0;
  if (used == threads()) return;
  used = threads();
  omp_set_num_threads(static_cast<int>(used));
}

void run_parts(void (*body)(void* data, unsigned part), void* data, unsigned parts) {
  Region region{body, data, parts};
  tell_begin(&region);
  GOMP_parallel(run_part, &region, parts, 0);
  tell_end(&region);
}

}  // namespace ferry::ops
