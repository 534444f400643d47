#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "ferry/fabric/types.h"

namespace ferry::fabric {

class Operation;

// One operation in flight: its status, a way to wait for it, a way to give it up. Move-only, used
// by one thread at a time, and gone before its device is. Dropping it does not cancel the
// operation; the local bytes stay the library's until the completion all the same, so whoever drops
// it needs the callback.
class [[nodiscard]] Transfer {
 public:
  Transfer() = default;  // an operation that has ended well
  Transfer(Transfer&& other) noexcept
      : op_(std::exchange(other.op_, nullptr)),
        value_(other.value_),
        error_(std::move(other.error_)) {}
  Transfer& operator=(Transfer&& other) noexcept;
  ~Transfer() {
    if (op_ != nullptr) drop();
  }

  // For lanes: ended at once, well or not, or still in flight (takes over the caller's share).
  static Transfer done(std::uint64_t value = 0) {
    Transfer transfer;
    transfer.value_ = value;
    return transfer;
  }
  static Transfer failed(Error error) {
    Transfer transfer;
    transfer.error_ = std::make_shared<const Error>(std::move(error));
    return transfer;
  }
  static Transfer pending(Operation* op) {
    Transfer transfer;
    transfer.op_ = op;
    return transfer;
  }

  // True once the operation has ended; makes a little progress. Never blocks.
  bool poll() { return op_ == nullptr || poll_pending(); }
  // The same as a plain look, without progress: for the condition of a Device::wait_until().
  bool ended() const { return op_ == nullptr || !pending(); }
  // Makes progress until the operation has ended (it has a deadline, so it does), and says how.
  Status wait(WaitMode mode = WaitMode::kAdaptive) {
    if (op_ == nullptr && error_ == nullptr) return {};
    return wait_pending(mode);
  }
  // Asks for the operation to be given up. It still ends exactly once: done if it was too late,
  // else kCancelled. Wait for it before the local bytes are used again.
  void cancel();
  // What an atomic found, after wait() said OK.
  std::uint64_t value() const { return value_; }

 private:
  bool pending() const;
  bool poll_pending();
  Status wait_pending(WaitMode mode);
  void take_outcome();  // copies the outcome out of the ended operation and gives it back
  void drop();
  Operation* op_ = nullptr;
  std::uint64_t value_ = 0;
  std::shared_ptr<const Error> error_;
};

}  // namespace ferry::fabric
