#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/interop/c/types.h"

// What every entry of the C interface is made of. docs/design/python.md has the reasons.

struct ferry_error {
  ferry::Error error;
};
struct ferry_text {
  std::string text;
};

namespace ferry::interop {

// Which process this is: another number in a child of fork().
unsigned process_number();

// Part of every handle: it is of use in the process that made it only.
struct OfProcess {
  unsigned process = process_number();
};

inline Deadline deadline_of(std::int64_t timeout_ns) {
  constexpr auto kNever = std::numeric_limits<std::int64_t>::max();
  return timeout_ns < 0 ? Deadline::at_ns(kNever) : Deadline::after(Nanos(timeout_ns));
}
// Where 0 stands for a default.
inline Deadline deadline_or_none(std::int64_t timeout_ns) {
  return timeout_ns == 0 ? Deadline() : deadline_of(timeout_ns);
}

// Turns what was thrown into an error. To be called in a catch block.
ferry_error* error_of_exception() noexcept;
ferry_error* make_error(Error error) noexcept;

// Runs the body of an entry: nothing that is thrown leaves it.
template <class Body>
ferry_error* guard(Body&& body) noexcept {
  try {
    Status status = body();
    return status ? nullptr : make_error(std::move(status).error());
  } catch (...) {
    return error_of_exception();
  }
}

Status check_pointers(std::initializer_list<const void*> needed);

// The same for an entry on a handle; all pointers are needed.
template <class Handle, class Body>
ferry_error* guard(Handle* handle, std::initializer_list<const void*> needed,
                   Body&& body) noexcept {
  return guard([&]() -> Status {
    FERRY_TRY(check_pointers({handle}));
    FERRY_TRY(check_pointers(needed));
    if (handle->process != process_number())
      return fail(Code::kFailedPrecondition,
                  "this object was made before fork(), by the parent process; open a device of "
                  "the child's own, or start the child by spawn");
    return body();
  });
}

template <class Handle>
void free_handle(Handle* handle) noexcept {
  // The child of fork() has none of the threads that a destructor would wait for.
  if (handle != nullptr && handle->process == process_number()) delete handle;
}

// The caller's struct of options, which may be shorter than ours.
template <class Options>
Result<Options> options_of(const Options* given) {
  Options options{};
  if (given == nullptr) return options;
  if (given->size < sizeof(given->size) || given->size > sizeof(Options))
    return fail(Code::kInvalidArgument,
                "options of {} bytes, where {} are known: set `size` to sizeof, and use the header "
                "of this library",
                given->size, sizeof(Options));
  __builtin_memcpy(&options, given, given->size);
  return options;
}

inline std::string text_or(const char* text, const char* other) {
  return text != nullptr ? text : other;
}

}  // namespace ferry::interop
