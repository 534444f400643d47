#pragma once

// What the parts of the extension have in common: handles of the C interface as members, errors as
// exceptions, waits that let go of the interpreter, arrays over memory that somebody keeps.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferry/interop/c/tensorferry.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace)

namespace tensorferry {

using Timeout = std::optional<double>;  // seconds; none: no end
constexpr double kUsual = 30.0;

// Becomes an exception of tensorferry.errors.
struct Failure {
  int code;
  int os_code;
  std::string message;
};
[[noreturn]] void fail(int code, const std::string& message);
// Throws if there is one, and frees it.
void check(ferry_error* error);

// Without the interpreter's lock. When the interpreter has begun to end, the thread that has made
// this object, if it is not the one that ends it, stays in its destructor for ever: asking for the
// lock would unwind it through frames that cannot be unwound.
class Unlocked {
 public:
  Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked();

 private:
  PyThreadState* state_;
};
void begin_end();  // called by atexit

// Calls `step(ns)` until it returns something other than DEADLINE_EXCEEDED or the time is over; in
// between the interpreter may act on signals.
void wait_in_slices(Timeout timeout, const std::function<ferry_error*(std::int64_t)>& step);
// Runs a call that must not be cut in slices. In the main thread another one does it, so that
// Ctrl-C is seen; after that what `kept` has stays for good.
void wait_whole(Timeout timeout, std::function<ferry_error*(std::int64_t)> call,
                std::vector<nb::object> kept = {});

// A handle of the C interface. Null: closed.
template <class T, void (*kFree)(T*)>
class Handle {
 public:
  explicit Handle(const char* noun) : noun_(noun) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  T* get() const {
    if (handle_ == nullptr)
      fail(FERRY_FAILED_PRECONDITION, std::string("the ") + noun_ + " is closed");
    return handle_;
  }
  T** out() { return &handle_; }
  void take(T* handle) {
    reset();
    handle_ = handle;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  void reset() {
    if (handle_ == nullptr) return;
    auto* const handle = std::exchange(handle_, nullptr);
    Unlocked unlocked;  // it may wait, for threads and for peers
    kFree(handle);
  }

 private:
  const char* noun_;
  T* handle_ = nullptr;
};

// For objects that one thread uses at a time: a second one gets an error.
class OneAtATime {
 public:
  class Use {
   public:
    explicit Use(OneAtATime& of) : of_(of) {
      if (of_.busy_.test_and_set())
        fail(FERRY_FAILED_PRECONDITION,
             "another thread is using this object; give each thread its own, or use a lock");
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { of_.busy_.clear(); }

   private:
    OneAtATime& of_;
  };

 private:
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

std::string text_of(ferry_text* text);  // and frees it
nb::object json_of(ferry_text* text);   // and frees it

ferry_spec spec_of(nb::handle shape, nb::handle dtype);
// The dtype of numpy, as text; bfloat16 is there as uint16.
nb::object array_over(const ferry_tensor& tensor, nb::handle owner, bool writable);
nb::object empty_array(const ferry_spec& spec);
nb::tuple shape_of(const ferry_spec& spec);
void make_read_only(nb::handle array);

// Contiguous bytes of an array of any library, or of an object with a buffer, and what keeps them.
struct Bytes {
  const void* data = nullptr;
  std::uint64_t size = 0;
  ferry_spec spec{};
  nb::object owner;
  void* writable() const { return const_cast<void*>(data); }
  ferry_tensor tensor() const { return {spec, writable(), size}; }
};
Bytes bytes_to_read(nb::handle object);
Bytes bytes_to_write(nb::handle object);
std::vector<Bytes> all_bytes_to_read(nb::handle objects);

void bind_device(nb::module_& module);
void bind_edges(nb::module_& module);
void bind_mail(nb::module_& module);
void bind_ps(nb::module_& module);

using DeviceHandle = Handle<ferry_device, ferry_device_free>;
using ChannelHandle = Handle<ferry_channel, ferry_channel_free>;

struct Device {
  DeviceHandle handle{"device"};
};
struct Channel {
  ChannelHandle handle{"channel"};
  nb::object device;          // whose descriptor `await` sleeps on
  std::atomic<int> calls{0};  // that are running

  // While it lives, the channel is not closed.
  class Call {
   public:
    explicit Call(Channel& on) : on_(on), channel_(on.handle.get()) { ++on_.calls; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --on_.calls; }
    operator ferry_channel*() const { return channel_; }  // NOLINT(google-explicit-constructor)

   private:
    Channel& on_;
    ferry_channel* channel_;
  };
};

}  // namespace tensorferry
