#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace ferry {

// What went wrong, numerically equal to google.rpc.Code.
enum class Code : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view name_of(Code code);

// A failure with a name. Cheap to move and to copy; never kOk.
//
// The message says what was tried, on what, and what to do about it. `os_code()` is the errno, the
// work-completion status or 0; `file()` and `line()` say where the failure was first named.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message, int os_code, const char* file, int line);

  Code code() const { return detail_->code; }
  const std::string& message() const { return detail_->message; }
  int os_code() const { return detail_->os_code; }
  const char* file() const { return detail_->file; }
  int line() const { return detail_->line; }

  // "UNAVAILABLE: peer 127.0.0.1:7000 closed the connection"
  std::string to_string() const;

 private:
  struct Detail {
    Code code;
    std::string message;
    int os_code;
    const char* file;
    int line;
  };
  std::shared_ptr<const Detail> detail_;
};

template <class T = void>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// A format string that remembers where it was written.
template <class... Args>
struct FormatAt {
  fmt::format_string<Args...> format;
  const char* file;
  int line;

  template <class S>
  consteval FormatAt(const S& text, const char* where = __builtin_FILE(), int at = __builtin_LINE())
      : format(text), file(where), line(at) {}
};

// return fail(Code::kNotFound, "region {} is not known to {}; publish it first", key, peer);
template <class... Args>
tl::unexpected<Error> fail(Code code, std::type_identity_t<FormatAt<Args...>> text,
                           Args&&... args) {
  return tl::unexpected<Error>(
      Error(code, fmt::format(text.format, std::forward<Args>(args)...), 0, text.file, text.line));
}

// The same for a failed system call: appends what errno says and keeps it. The code follows errno.
Code code_of_errno(int error);
std::string text_of_errno(int error);

template <class... Args>
tl::unexpected<Error> fail_errno(int error, std::type_identity_t<FormatAt<Args...>> text,
                                 Args&&... args) {
  return tl::unexpected<Error>(
      Error(code_of_errno(error),
            fmt::format(text.format, std::forward<Args>(args)...) + ": " + text_of_errno(error),
            error, text.file, text.line));
}

namespace detail {
template <class T>
T take_value(Result<T>& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}
}  // namespace detail

// Broken invariants of our own end the process with a sentence. Never reachable by input or peers.
[[noreturn]] void die(const char* file, int line, const std::string& sentence);

}  // namespace ferry

// auto fd = FERRY_TRY(open_it());   passes the error on to the caller.
#define FERRY_TRY(expression)                                                     \
  (__extension__({                                                                \
    auto ferry_try_result = (expression);                                         \
    if (!ferry_try_result)                                                        \
      return tl::unexpected<::ferry::Error>(std::move(ferry_try_result).error()); \
    ::ferry::detail::take_value(ferry_try_result);                                \
  }))

#define FERRY_ASSERT(condition, sentence)                                          \
  do {                                                                             \
    if (__builtin_expect(!(condition), 0))                                         \
      ::ferry::die(__FILE__, __LINE__, std::string(#condition ": ") + (sentence)); \
  } while (false)
