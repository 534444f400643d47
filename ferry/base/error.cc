#include "ferry/base/error.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace ferry {

std::string_view name_of(Code code) {
  static constexpr std::array<std::string_view, 17> kNames = {"OK",
                                                              "CANCELLED",
                                                              "UNKNOWN",
                                                              "INVALID_ARGUMENT",
                                                              "DEADLINE_EXCEEDED",
                                                              "NOT_FOUND",
                                                              "ALREADY_EXISTS",
                                                              "PERMISSION_DENIED",
                                                              "RESOURCE_EXHAUSTED",
                                                              "FAILED_PRECONDITION",
                                                              "ABORTED",
                                                              "OUT_OF_RANGE",
                                                              "UNIMPLEMENTED",
                                                              "INTERNAL",
                                                              "UNAVAILABLE",
                                                              "DATA_LOSS",
                                                              "UNAUTHENTICATED"};
  auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

Error::Error(Code code, std::string message, int os_code, const char* file, int line)
    : detail_(
          std::make_shared<const Detail>(Detail{code, std::move(message), os_code, file, line})) {}

std::string Error::to_string() const { return fmt::format("{}: {}", name_of(code()), message()); }

Code code_of_errno(int error) {
  switch (error) {
    case EINVAL:
    case EAFNOSUPPORT:
      return Code::kInvalidArgument;
    case ENOENT:
    case ENODEV:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
      return Code::kPermissionDenied;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case ENOBUFS:
      return Code::kResourceExhausted;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::kUnimplemented;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case ENOTCONN:
      return Code::kUnavailable;
    case ECANCELED:
      return Code::kCancelled;
    default:
      return Code::kInternal;
  }
}

std::string text_of_errno(int error) { return std::generic_category().message(error); }

void die(const char* file, int line, const std::string& sentence) {
  std::fprintf(stderr, "ferry: broken invariant at %s:%d: %s\n", file, line, sentence.c_str());
  std::abort();
}

}  // namespace ferry
