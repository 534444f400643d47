#pragma once

#include <mutex>

// Clang's thread-safety analysis (preset clang-tsa); nothing elsewhere.
#if defined(__clang__)
#define FERRY_TSA(x) __attribute__((x))
#else
#define FERRY_TSA(x)
#endif
#define FERRY_CAPABILITY(name) FERRY_TSA(capability(name))
#define FERRY_SCOPED_CAPABILITY FERRY_TSA(scoped_lockable)
#define FERRY_GUARDED_BY(x) FERRY_TSA(guarded_by(x))
#define FERRY_PT_GUARDED_BY(x) FERRY_TSA(pt_guarded_by(x))
#define FERRY_REQUIRES(...) FERRY_TSA(requires_capability(__VA_ARGS__))
#define FERRY_EXCLUDES(...) FERRY_TSA(locks_excluded(__VA_ARGS__))
#define FERRY_ACQUIRE(...) FERRY_TSA(acquire_capability(__VA_ARGS__))
#define FERRY_TRY_ACQUIRE(...) FERRY_TSA(try_acquire_capability(__VA_ARGS__))
#define FERRY_RELEASE(...) FERRY_TSA(release_capability(__VA_ARGS__))
#define FERRY_NO_THREAD_SAFETY_ANALYSIS FERRY_TSA(no_thread_safety_analysis)

namespace ferry {

// std::mutex that clang's analysis understands. Lock it with LockGuard (ferry/base/spin.h) or, to
// wait on a std::condition_variable_any, directly.
class FERRY_CAPABILITY("mutex") Mutex {
 public:
  void lock() FERRY_ACQUIRE() { mutex_.lock(); }
  bool try_lock() FERRY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() FERRY_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace ferry
