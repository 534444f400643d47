#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::fabric {

// Frames of one control connection that its peer has not taken yet. Not thread-safe; only the
// total of the device, which all outboxes of the device add to, is shared between threads.
class Outbox {
 public:
  using Total = std::atomic<std::size_t>;

  explicit Outbox(Total& total) : total_(total) {}
  ~Outbox() { clear(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // `answer`: the frame answers a request of the peer's.
  void append(std::uint16_t type, std::uint64_t id, std::span<const std::byte> payload,
              bool answer);
  // Sends what the socket takes without blocking. Memory of bytes that have left is given back.
  // Fails with the error of the socket.
  Status flush(int socket);
  void clear();

  std::size_t unsent() const { return bytes_.size() - sent_; }
  // The part of unsent() that the peer asked for.
  std::size_t unsent_answers() const { return answer_bytes_; }
  bool empty() const { return unsent() == 0; }
  // Memory held, counting bytes that have left but are not given back yet.
  std::size_t held() const { return bytes_.capacity(); }

 private:
  Total& total_;
  std::vector<std::byte> bytes_;
  std::size_t sent_ = 0;  // of bytes_
  // Where answers lie, as positions in the stream since it began; neighbours are joined.
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  void forget_sent_answers();
  std::uint64_t sent_ever_ = 0;
  std::deque<Range> answers_;
  std::size_t answer_bytes_ = 0;
};

}  // namespace ferry::fabric
