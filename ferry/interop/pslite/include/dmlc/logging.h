#pragma once
#pragma GCC system_header  // of others' manner: for #include_next

// LOG and CHECK as ps-lite's programs use them. A failed check, and LOG(FATAL), print the sentence
// on standard error, so that a launcher sees it, and throw dmlc::Error; with DMLC_LOG_FATAL_THROW=0
// they abort. Where dmlc-core is among the folders of headers, before this one or after it, its own
// file is what programs get. All but Error are in a namespace of their own, so that a program may
// have files with dmlc-core and without.

#if !defined(DMLC_LOGGING_H_) && __has_include_next(<dmlc/logging.h>)
#include_next <dmlc/logging.h>
#endif

#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <dmlc/base.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace dmlc {

// What a failed check throws. The library and its programs have one and the same.
struct Error : public std::runtime_error {
  explicit Error(const std::string& s) : std::runtime_error(s) {}
};

}  // namespace dmlc

#if DMLC_USE_GLOG
#include <glog/logging.h>

namespace dmlc {
inline namespace tensorferry {
inline void InitLogging(const char* argv0) { google::InitGoogleLogging(argv0); }
}  // namespace tensorferry
}  // namespace dmlc

#else

namespace dmlc {
inline namespace tensorferry {

inline void InitLogging(const char* argv0) { (void)argv0; }

class LogMessage {
 public:
  LogMessage(const char* level, const char* file, int line) {
    stream_ << '[' << level << "] " << file << ':' << line << ": ";
  }
  LogMessage(const char* file, int line) : LogMessage("INFO", file, line) {}
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage() { std::cerr << stream_.str() + "\n" << std::flush; }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

class LogMessageFatal {
 public:
  LogMessageFatal(const char* file, int line) { stream_ << file << ':' << line << ": "; }
  LogMessageFatal(const LogMessageFatal&) = delete;
  LogMessageFatal& operator=(const LogMessageFatal&) = delete;
  [[noreturn]] ~LogMessageFatal() noexcept(false) {
    std::cerr << "[FATAL] " + stream_.str() + "\n" << std::flush;
#if DMLC_LOG_FATAL_THROW
    throw Error(stream_.str());
#else
    std::abort();
#endif
  }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives a streaming expression the type of the other branch of a condition.
struct LogMessageVoidify {
  void operator&(std::ostream&) const {}
};

// The pointer, which is not null.
template <typename T>
T&& CheckNotNull(const char* file, int line, const char* text, T&& pointer) {
  if (pointer == nullptr) LogMessageFatal(file, line).stream() << text;
  return static_cast<T&&>(pointer);
}

// Whether this is the first call, or the one after n, 2n... others, with the counter.
inline bool IsEveryNth(std::atomic<unsigned long>& counter, unsigned long n) {
  return counter.fetch_add(1, std::memory_order_relaxed) % (n == 0 ? 1 : n) == 0;
}

}  // namespace tensorferry
}  // namespace dmlc

// A program that has included glog has these.
#ifndef LOG
#define LOG_INFO ::dmlc::LogMessage("INFO", __FILE__, __LINE__)
#define LOG_WARNING ::dmlc::LogMessage("WARNING", __FILE__, __LINE__)
#define LOG_ERROR ::dmlc::LogMessage("ERROR", __FILE__, __LINE__)
#define LOG_FATAL ::dmlc::LogMessageFatal(__FILE__, __LINE__)
#define LOG_QFATAL LOG_FATAL
#define LOG(severity) LOG_##severity.stream()
#define LG LOG(INFO)
#define LOG_IF(severity, condition) \
  !(condition) ? static_cast<void>(0) : ::dmlc::LogMessageVoidify() & LOG(severity)
#define LOG_EVERY_N(severity, n)                      \
  !::dmlc::IsEveryNth(                                \
      []() -> std::atomic<unsigned long>& {           \
        static std::atomic<unsigned long> counter{0}; \
        return counter;                               \
      }(),                                            \
      static_cast<unsigned long>(n))                  \
      ? static_cast<void>(0)                          \
      : ::dmlc::LogMessageVoidify() & LOG(severity)
// ps-lite has no levels of these: all are printed.
#define VLOG(level) LOG(INFO)
#ifdef NDEBUG
#define LOG_DFATAL LOG_ERROR
#define DFATAL ERROR
#define DLOG(severity) DLOG_IF(severity, true)
#define DLOG_IF(severity, condition) LOG_IF(severity, false && (condition))
#else
#define LOG_DFATAL LOG_FATAL
#define DFATAL FATAL
#define DLOG(severity) LOG(severity)
#define DLOG_IF(severity, condition) LOG_IF(severity, condition)
#endif

// An expression, so that a CHECK may stand between if and else. Comparisons do not print what they
// compare: it may be of a type that cannot be printed.
#define CHECK(x)                                                                           \
  (x) ? static_cast<void>(0)                                                               \
      : ::dmlc::LogMessageVoidify() & ::dmlc::LogMessageFatal(__FILE__, __LINE__).stream() \
                                          << "Check failed: " #x << ' '
#define CHECK_LT(x, y) CHECK((x) < (y))
#define CHECK_GT(x, y) CHECK((x) > (y))
#define CHECK_LE(x, y) CHECK((x) <= (y))
#define CHECK_GE(x, y) CHECK((x) >= (y))
#define CHECK_EQ(x, y) CHECK((x) == (y))
#define CHECK_NE(x, y) CHECK((x) != (y))
#define CHECK_NOTNULL(x) ::dmlc::CheckNotNull(__FILE__, __LINE__, "Check notnull: " #x, (x))
#ifdef NDEBUG
#define DCHECK(x) \
  while (false) CHECK(x)
#else
#define DCHECK(x) CHECK(x)
#endif
#define DCHECK_LT(x, y) DCHECK((x) < (y))
#define DCHECK_GT(x, y) DCHECK((x) > (y))
#define DCHECK_LE(x, y) DCHECK((x) <= (y))
#define DCHECK_GE(x, y) DCHECK((x) >= (y))
#define DCHECK_EQ(x, y) DCHECK((x) == (y))
#define DCHECK_NE(x, y) DCHECK((x) != (y))
#endif  // LOG

#endif  // DMLC_USE_GLOG
#endif  // DMLC_LOGGING_H_
