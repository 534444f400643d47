#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "ferry/fabric/device.h"
#include "ferry/tensor/tensor.h"
#include "ferry/transfer/ticket.h"

namespace ferry::transfer {

struct ReceiverOptions {
  std::uint32_t slots = 2;  // tensors that may be under way or in use at once
  bool spins = false;       // promises to wait with WaitMode::kSpin only, which spares wake-ups
};

struct SenderOptions {
  bool in_place = true;  // produce in the receiver's memory where the path allows it
  fabric::WaitMode mode = fabric::WaitMode::kAdaptive;  // while all slots are in use
};

// What one end of an edge did, counted.
struct EdgeStats {
  std::uint64_t tensors = 0;  // sent, or taken
  std::uint64_t in_place =
      0;                     // of these: produced in the receiver's memory, or used in the sender's
  std::uint64_t writes = 0;  // posted for payloads and metadata
  std::uint64_t reads = 0;   // of payloads
  std::uint64_t copies = 0;  // into registered memory before sending
  // Of the tensors sent: from registered memory, where they lay: neither copied nor registered for
  // it.
  std::uint64_t registered = 0;
};

// A tensor that has arrived, in place: memory of the receiver's slot, of its pool, or of the sender
// itself. Letting go of it, by release() or by destruction, gives the memory back; any thread may.
// Move-only. Must not outlive its receiver.
class Arrival {
 public:
  // Gives back what the arrival holds. Called once, from any thread.
  class Owner {
   public:
    virtual Status let_go(std::uint64_t sequence, std::uint64_t token) = 0;

   protected:
    ~Owner() = default;
  };

  Arrival() = default;
  // The owner keeps the tensor where it is until let_go().
  Arrival(Owner* owner, std::uint64_t sequence, std::uint64_t token, const tensor::Tensor* tensor)
      : owner_(owner), sequence_(sequence), token_(token), tensor_(tensor) {}
  Arrival(Arrival&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        sequence_(other.sequence_),
        token_(other.token_),
        tensor_(other.tensor_) {}
  Arrival& operator=(Arrival&& other) noexcept {
    if (this != &other) {
      drop();
      owner_ = std::exchange(other.owner_, nullptr);
      sequence_ = other.sequence_;
      token_ = other.token_;
      tensor_ = other.tensor_;
    }
    return *this;
  }
  ~Arrival() { drop(); }

  // Until it is let go of.
  const tensor::Tensor& tensor() const { return *tensor_; }
  std::span<std::byte> bytes() const { return tensor_->bytes(); }
  // Which tensor of the edge it is, from 1.
  std::uint64_t sequence() const { return sequence_; }
  // kUnavailable if the sender is gone; the memory is given back all the same.
  Status release() {
    auto* owner = std::exchange(owner_, nullptr);
    return owner == nullptr ? Status() : owner->let_go(sequence_, token_);
  }
  explicit operator bool() const { return owner_ != nullptr; }

 private:
  void drop() {
    if (owner_ != nullptr) (void)release();
  }
  Owner* owner_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::uint64_t token_ = 0;
  const tensor::Tensor* tensor_ = nullptr;
};

}  // namespace ferry::transfer
