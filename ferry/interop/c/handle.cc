#include <pthread.h>

#include <atomic>
#include <exception>
#include <new>

#include "ferry/interop/c/handle_internal.h"

namespace ferry::interop {

namespace {

std::atomic<unsigned>& counter() {
  static std::atomic<unsigned> number{1};
  return number;
}

// Before any handle, so that the child is counted whatever the parent has done.
[[maybe_unused]] const int kWatchesForks =
    pthread_atfork(nullptr, nullptr, [] { counter().fetch_add(1); });

// When there is no memory for an error. Never freed.
ferry_error& no_memory() {
  static auto* const error = new ferry_error{
      Error(Code::kResourceExhausted, "there is no memory left", 0, __FILE__, __LINE__)};
  return *error;
}
[[maybe_unused]] const ferry_error& kNoMemory = no_memory();

}  // namespace

unsigned process_number() { return counter().load(std::memory_order_relaxed); }

ferry_error* make_error(Error error) noexcept {
  auto* made = new (std::nothrow) ferry_error{std::move(error)};
  return made != nullptr ? made : &no_memory();
}

ferry_error* error_of_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return &no_memory();
  } catch (const std::exception& problem) {
    return make_error(fail(Code::kInternal, "{}", problem.what()).value());
  } catch (...) {
    return make_error(fail(Code::kInternal, "an exception of an unknown kind").value());
  }
}

Status check_pointers(std::initializer_list<const void*> needed) {
  for (const auto* pointer : needed)
    if (pointer == nullptr) return fail(Code::kInvalidArgument, "an argument is null");
  return {};
}

}  // namespace ferry::interop

extern "C" {

int32_t ferry_error_code(const ferry_error* error) {
  return error == nullptr ? FERRY_OK : static_cast<int32_t>(error->error.code());
}
const char* ferry_error_message(const ferry_error* error) {
  return error == nullptr ? "" : error->error.message().c_str();
}
int32_t ferry_error_os_code(const ferry_error* error) {
  return error == nullptr ? 0 : error->error.os_code();
}
void ferry_error_free(ferry_error* error) {
  if (error != &ferry::interop::no_memory()) delete error;
}
const char* ferry_code_name(int32_t code) {
  if (code < FERRY_OK || code > FERRY_UNAUTHENTICATED) return "UNKNOWN";
  return ferry::name_of(static_cast<ferry::Code>(code)).data();
}
const char* ferry_version(void) { return FERRY_VERSION; }

const char* ferry_text_data(const ferry_text* text) {
  return text == nullptr ? "" : text->text.c_str();
}
size_t ferry_text_size(const ferry_text* text) { return text == nullptr ? 0 : text->text.size(); }
void ferry_text_free(ferry_text* text) { delete text; }

}  // extern "C"
