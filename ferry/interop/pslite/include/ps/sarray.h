#pragma once

#include <dmlc/logging.h>
#include <ps/range.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace ps {

// An array whose copies share the memory. Converts between element types whose sizes divide the
// bytes, and to pieces of itself, without copying.
template <typename V>
class SArray {
 public:
  SArray() = default;
  explicit SArray(std::size_t size, V val = 0) { resize(size, val); }
  template <typename W>
  explicit SArray(const SArray<W>& other) {
    *this = other;
  }
  template <typename W>
  void operator=(const SArray<W>& other) {
    CHECK_EQ(other.size() * sizeof(W) % sizeof(V), std::size_t{0}) << "cannot be divided";
    size_ = other.size() * sizeof(W) / sizeof(V);
    capacity_ = other.capacity() * sizeof(W) / sizeof(V);
    ptr_ = std::shared_ptr<V>(other.ptr(), reinterpret_cast<V*>(other.data()));
  }
  // Over the caller's memory, which is freed with the array only if `deletable`.
  SArray(V* data, std::size_t size, bool deletable = false) {
    if (deletable)
      reset(data, size, [](V* p) { delete[] p; });
    else
      reset(data, size, [](V*) {});
  }
  explicit SArray(const std::vector<V>& vec) { CopyFrom(vec.data(), vec.size()); }
  // Shares the vector.
  explicit SArray(const std::shared_ptr<std::vector<V>>& vec) {
    ptr_ = std::shared_ptr<V>(vec, vec->data());
    size_ = vec->size();
    capacity_ = size_;
  }
  template <typename W>
  SArray(const std::initializer_list<W>& list) {
    CopyFrom(list.begin(), list.end());
  }

  void CopyFrom(const V* data, std::size_t size) {
    resize(size);
    if (size > 0) std::memcpy(static_cast<void*>(this->data()), data, size * sizeof(V));
  }
  void CopyFrom(const SArray<V>& other) {
    if (this == &other) return;
    CopyFrom(other.data(), other.size());
  }
  template <typename ForwardIt>
  void CopyFrom(const ForwardIt first, const ForwardIt last) {
    resize(static_cast<std::size_t>(std::distance(first, last)));
    std::copy(first, last, begin());
  }
  template <typename Deleter>
  void reset(V* data, std::size_t size, Deleter del) {
    size_ = size;
    capacity_ = size;
    ptr_.reset(data, del);
  }
  // Keeps what there is; new elements are `val`.
  void resize(std::size_t size, V val = 0) {
    const auto old = size_;
    if (capacity_ < size) grow(size);
    size_ = size;
    if (size > old) std::fill(data() + old, data() + size, val);
  }
  void reserve(std::size_t size) {
    if (capacity_ < size) grow(size);
  }
  void clear() {
    ptr_.reset();
    size_ = 0;
    capacity_ = 0;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  V* begin() { return data(); }
  const V* begin() const { return data(); }
  V* end() { return data() + size_; }
  const V* end() const { return data() + size_; }
  V* data() const { return ptr_.get(); }
  std::shared_ptr<V>& ptr() { return ptr_; }
  const std::shared_ptr<V>& ptr() const { return ptr_; }
  V back() const {
    CHECK(!empty());
    return data()[size_ - 1];
  }
  V front() const {
    CHECK(!empty());
    return data()[0];
  }
  V& operator[](int i) { return data()[i]; }
  const V& operator[](int i) const { return data()[i]; }

  void push_back(const V& val) {
    const V copy = val;  // it may be an element
    if (size_ == capacity_) grow(std::max<std::size_t>(size_ * 2, 8));
    data()[size_++] = copy;
  }
  void pop_back() {
    if (size_ > 0) --size_;
  }
  void append(const SArray<V>& other) {
    if (other.empty()) return;
    const auto old = size_;
    const SArray<V> from = other;  // it may be this one
    resize(old + from.size());
    std::copy(from.begin(), from.begin() + from.size(), data() + old);
  }
  // Elements [begin, end), shared.
  SArray<V> segment(std::size_t begin, std::size_t end) const {
    CHECK_GE(end, begin);
    CHECK_LE(end, size_);
    SArray<V> part;
    part.ptr_ = std::shared_ptr<V>(ptr_, data() + begin);
    part.size_ = end - begin;
    part.capacity_ = end - begin;
    return part;
  }

 private:
  template <typename W>
  friend class SArray;
  void grow(std::size_t capacity) {
    V* fresh = new V[capacity];
    std::copy(data(), data() + size_, fresh);
    ptr_.reset(fresh, [](V* p) { delete[] p; });
    capacity_ = capacity;
  }
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::shared_ptr<V> ptr_;
};

// The part of a sorted array that lies in [lower, upper).
template <typename V>
Range FindRange(const SArray<V>& arr, V lower, V upper) {
  if (upper <= lower) return Range(0, 0);
  const auto first = std::lower_bound(arr.begin(), arr.end(), lower);
  const auto last = std::lower_bound(arr.begin(), arr.end(), upper);
  return Range(static_cast<std::uint64_t>(first - arr.begin()),
               static_cast<std::uint64_t>(last - arr.begin()));
}

template <typename V>
inline std::string DebugStr(const V* data, int n, int m = 5) {
  std::stringstream text;
  text << '[' << n << "]: ";
  for (int i = 0; i < n; ++i) {
    if (n >= 2 * m && i == m) {
      text << "... ";
      i = n - m;
    }
    text << data[i] << ' ';
  }
  return text.str();
}
template <typename V>
std::ostream& operator<<(std::ostream& os, const SArray<V>& obj) {
  return os << DebugStr(obj.data(), static_cast<int>(obj.size()));
}

}  // namespace ps
