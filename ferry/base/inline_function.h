#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace ferry {

template <class Signature, std::size_t kCapacity = 48>
class InlineFunction;

// A move-only function object that never allocates: what it captures must fit into kCapacity bytes.
template <class R, class... Args, std::size_t kCapacity>
class InlineFunction<R(Args...), kCapacity> {
 public:
  InlineFunction() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, InlineFunction> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      InlineFunction(F&& function) {  // NOLINT(google-explicit-constructor): reads as a callback
    using Stored = std::decay_t<F>;
    static_assert(sizeof(Stored) <= kCapacity, "captures too much: capture a pointer instead");
    static_assert(std::is_nothrow_move_constructible_v<Stored>);
    new (storage_) Stored(std::forward<F>(function));
    call_ = [](void* self, Args... args) -> R {
      return (*static_cast<Stored*>(self))(std::forward<Args>(args)...);
    };
    move_ = [](void* to, void* from) {
      auto* source = static_cast<Stored*>(from);
      if (to != nullptr) new (to) Stored(std::move(*source));
      source->~Stored();
    };
  }
  InlineFunction(InlineFunction&& other) noexcept { take(other); }
  InlineFunction& operator=(InlineFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~InlineFunction() { reset(); }

  explicit operator bool() const { return call_ != nullptr; }
  R operator()(Args... args) { return call_(storage_, std::forward<Args>(args)...); }
  void reset() {
    if (move_ != nullptr) move_(nullptr, storage_);
    call_ = nullptr;
    move_ = nullptr;
  }

 private:
  void take(InlineFunction& other) {
    call_ = std::exchange(other.call_, nullptr);
    move_ = std::exchange(other.move_, nullptr);
    if (move_ != nullptr) move_(storage_, other.storage_);
  }
  R (*call_)(void*, Args...) = nullptr;
  void (*move_)(void*, void*) = nullptr;
  alignas(std::max_align_t) std::byte storage_[kCapacity];
};

}  // namespace ferry
