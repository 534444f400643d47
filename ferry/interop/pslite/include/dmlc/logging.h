#pragma once

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

// LOG and CHECK as ps-lite's programs use them. A failed check, and LOG(FATAL), end the process
// with the sentence on standard error, so that a launcher sees it.

namespace dmlc {

// For programs that name it; nothing here throws.
struct Error : public std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

class LogLine {
 public:
  LogLine(const char* level, const char* file, int line) {
    stream_ << '[' << level << "] " << file << ':' << line << ": ";
  }
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine() { std::cerr << stream_.str() + "\n" << std::flush; }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

class FatalLine {
 public:
  FatalLine(const char* file, int line) { stream_ << "[FATAL] " << file << ':' << line << ": "; }
  FatalLine(const FatalLine&) = delete;
  FatalLine& operator=(const FatalLine&) = delete;
  [[noreturn]] ~FatalLine() {
    std::cerr << stream_.str() + "\n" << std::flush;
    std::abort();
  }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives a streaming expression the type of the other branch of a condition.
struct Voidify {
  void operator&(std::ostream&) const {}
};

// What is wrong with a comparison, or nothing.
template <class A, class B>
std::unique_ptr<std::string> compared(const A& a, const B& b) {
  std::ostringstream text;
  text << " (" << a << " vs. " << b << ") ";
  return std::make_unique<std::string>(text.str());
}

#define FERRY_DMLC_COMPARISON(name, op)                               \
  template <class A, class B>                                         \
  std::unique_ptr<std::string> check_##name(const A& a, const B& b) { \
    if (a op b) return nullptr;                                       \
    return compared(a, b);                                            \
  }                                                                   \
  inline std::unique_ptr<std::string> check_##name(int a, int b) {    \
    return check_##name<int, int>(a, b);                              \
  }
FERRY_DMLC_COMPARISON(lt, <)
FERRY_DMLC_COMPARISON(gt, >)
FERRY_DMLC_COMPARISON(le, <=)
FERRY_DMLC_COMPARISON(ge, >=)
FERRY_DMLC_COMPARISON(eq, ==)
FERRY_DMLC_COMPARISON(ne, !=)
#undef FERRY_DMLC_COMPARISON

}  // namespace dmlc

#define FERRY_DMLC_LOG_INFO ::dmlc::LogLine("INFO", __FILE__, __LINE__)
#define FERRY_DMLC_LOG_WARNING ::dmlc::LogLine("WARNING", __FILE__, __LINE__)
#define FERRY_DMLC_LOG_ERROR ::dmlc::LogLine("ERROR", __FILE__, __LINE__)
#define FERRY_DMLC_LOG_FATAL ::dmlc::FatalLine(__FILE__, __LINE__)

#ifndef LOG
#define LOG(severity) FERRY_DMLC_LOG_##severity.stream()
#define LOG_IF(severity, condition) \
  !(condition) ? static_cast<void>(0) : ::dmlc::Voidify() & LOG(severity)
#define LOG_FATAL FERRY_DMLC_LOG_FATAL
#define LG LOG(INFO)

#define CHECK(x) \
  if (!(x)) ::dmlc::FatalLine(__FILE__, __LINE__).stream() << "Check failed: " #x << ' '
#define FERRY_DMLC_CHECK(name, op, x, y)               \
  if (auto ferry_problem = ::dmlc::check_##name(x, y)) \
  ::dmlc::FatalLine(__FILE__, __LINE__).stream()       \
      << "Check failed: " #x " " #op " " #y << *ferry_problem
#define CHECK_LT(x, y) FERRY_DMLC_CHECK(lt, <, x, y)
#define CHECK_GT(x, y) FERRY_DMLC_CHECK(gt, >, x, y)
#define CHECK_LE(x, y) FERRY_DMLC_CHECK(le, <=, x, y)
#define CHECK_GE(x, y) FERRY_DMLC_CHECK(ge, >=, x, y)
#define CHECK_EQ(x, y) FERRY_DMLC_CHECK(eq, ==, x, y)
#define CHECK_NE(x, y) FERRY_DMLC_CHECK(ne, !=, x, y)
#define CHECK_NOTNULL(x)                                                                      \
  ((x) == nullptr                                                                             \
       ? (::dmlc::FatalLine(__FILE__, __LINE__).stream() << "Check notnull: " #x << ' ', (x)) \
       : (x))
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
#endif
