// A stand-in for dmlc-core's file of this name: its guard, its names, and less of what they do.
#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

#include "./base.h"

namespace dmlc {

struct Error : public std::runtime_error {
  explicit Error(const std::string& s) : std::runtime_error(s) {}
};

inline void InitLogging(const char*) {}

template <typename X, typename Y>
std::unique_ptr<std::string> LogCheckFormat(const X& x, const Y& y) {
  std::ostringstream os;
  os << " (" << x << " vs. " << y << ") ";
  return std::make_unique<std::string>(os.str());
}

class LogMessage {
 public:
  LogMessage(const char* file, int line) { std::cerr << file << ":" << line << ": "; }
  ~LogMessage() { std::cerr << "\n"; }
  std::ostream& stream() { return std::cerr; }
};

// Larger than ours: two definitions of one name would be seen at once.
class LogMessageFatal {
 public:
  LogMessageFatal(const char* file, int line) { log_stream_ << "core " << file << ":" << line; }
  std::ostringstream& stream() { return log_stream_; }
  ~LogMessageFatal() noexcept(false) { throw Error(log_stream_.str()); }

 private:
  char padding_[512] = {};
  std::ostringstream log_stream_;
};

class LogMessageVoidify {
 public:
  void operator&(std::ostream&) {}
};

}  // namespace dmlc

#define CHECK(x) \
  if (!(x)) dmlc::LogMessageFatal(__FILE__, __LINE__).stream() << "Check failed: " #x << ": "
#define DMLC_STAND_IN_CHECK(op, x, y)                                          \
  if (auto __dmlc__log__err = (x)op(y) ? nullptr : dmlc::LogCheckFormat(x, y)) \
  dmlc::LogMessageFatal(__FILE__, __LINE__).stream()                           \
      << "Check failed: " << #x " " #op " " #y << *__dmlc__log__err << ": "
#define CHECK_LT(x, y) DMLC_STAND_IN_CHECK(<, x, y)
#define CHECK_GT(x, y) DMLC_STAND_IN_CHECK(>, x, y)
#define CHECK_LE(x, y) DMLC_STAND_IN_CHECK(<=, x, y)
#define CHECK_GE(x, y) DMLC_STAND_IN_CHECK(>=, x, y)
#define CHECK_EQ(x, y) DMLC_STAND_IN_CHECK(==, x, y)
#define CHECK_NE(x, y) DMLC_STAND_IN_CHECK(!=, x, y)
#define CHECK_NOTNULL(x)                                                                 \
  ((x) == NULL                                                                           \
   ? dmlc::LogMessageFatal(__FILE__, __LINE__).stream() << "Check  notnull: " #x << ' ', \
   (x) : (x))

#define LOG_INFO dmlc::LogMessage(__FILE__, __LINE__)
#define LOG_ERROR LOG_INFO
#define LOG_WARNING LOG_INFO
#define LOG_FATAL dmlc::LogMessageFatal(__FILE__, __LINE__)
#define LOG(severity) LOG_##severity.stream()
#define LOG_IF(severity, condition) \
  !(condition) ? (void)0 : dmlc::LogMessageVoidify() & LOG(severity)

#endif  // DMLC_LOGGING_H_
