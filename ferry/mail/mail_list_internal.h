#pragma once

#include <cstddef>

namespace ferry::mail {

// A queue of objects that have a `next` of their own, so that it never allocates.
template <class T>
class MailList {
 public:
  T* front() const { return head_; }
  bool empty() const { return head_ == nullptr; }
  std::size_t count() const {
    std::size_t items = 0;
    for (const auto* at = head_; at != nullptr; at = at->next) ++items;
    return items;
  }
  void push(T* item) {
    item->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = item;
    tail_ = item;
  }
  T* pop() {
    auto* item = head_;
    head_ = item->next;
    return item;
  }
  void remove(T* item) {
    T* before = nullptr;
    for (auto* at = head_; at != nullptr && at != item; at = at->next) before = at;
    if (before == nullptr) {
      head_ = item->next;
      return;
    }
    before->next = item->next;
    if (tail_ == item) tail_ = before;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace ferry::mail
