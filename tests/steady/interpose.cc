// Stands in for the allocator's and the locks' functions of the C library in this program, to
// count.

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "tests/steady/ledger_internal.h"

namespace ferry::steady {
namespace {

constinit std::atomic<Ledger*> current{nullptr};
constexpr std::uint64_t kShown = 8;  // stacks that are printed, of each kind

using Lock = int (*)(pthread_mutex_t*);
Lock real_lock() {
  static constinit std::atomic<Lock> found{nullptr};
  auto lock = found.load(std::memory_order_relaxed);
  if (lock == nullptr) {
    lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    found.store(lock, std::memory_order_relaxed);
  }
  return lock;
}

// FERRY_STEADY_STACKS=1 prints where the first ones come from; addr2line tells what the lines mean.
void show_stack(const char* what) {
  static const bool wanted = getenv("FERRY_STEADY_STACKS") != nullptr;
  thread_local bool inside = false;
  if (!wanted || inside) return;
  inside = true;
  void* frames[24];
  const int depth = backtrace(frames, 24);
  (void)!write(2, what, __builtin_strlen(what));
  backtrace_symbols_fd(frames, depth, 2);
  inside = false;
}

void count(std::atomic<std::uint64_t> Ledger::*what, const char* name) {
  auto* ledger = current.load(std::memory_order_relaxed);
  if (ledger == nullptr || !ledger->open.load(std::memory_order_relaxed)) return;
  if ((ledger->*what).fetch_add(1, std::memory_order_relaxed) < kShown) show_stack(name);
}

}  // namespace

void set_ledger(Ledger* ledger) {
  real_lock();
  void* frame = nullptr;
  backtrace(&frame, 1);  // the first one allocates
  current.store(ledger);
}

void count_allocation() { count(&Ledger::allocations, "an allocation:\n"); }
void count_blocked() { count(&Ledger::blocked, "a lock that blocked:\n"); }
int lock_really(pthread_mutex_t* mutex) { return real_lock()(mutex); }

}  // namespace ferry::steady

// NOLINTBEGIN(bugprone-reserved-identifier): glibc's own names
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ferry::steady::count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ferry::steady::count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ferry::steady::count_allocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ferry::steady::count_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  ferry::steady::count_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (pthread_mutex_trylock(mutex) == 0) return 0;
  ferry::steady::count_blocked();
  return ferry::steady::lock_really(mutex);
}
}
// NOLINTEND(bugprone-reserved-identifier)
