#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_record_internal.h"
#include "ferry/mail/receive_memory_internal.h"

namespace ferry::mail {

struct MailReading;

// A slot of the landing, and the batch in it.
struct MailSlot {
  std::uint32_t index = 0;
  std::uint64_t sequence = 0;
};

// A message that has arrived or is arriving. Used again and again.
struct MailParcel {
  static constexpr std::uint64_t kAllLanded = ~std::uint64_t{0};
  enum class Place : std::uint8_t { kSlot, kRoom, kSender };
  // An eager one is kWhole from the start. A large one:
  //   kMapping -> kWhole    its memory is mapped: it is used in place
  //   kMapping -> kWaiting  it cannot be mapped: it is read
  //   kWaiting -> kReading  it has memory of the room
  //   kReading -> kWhole    all chunks have landed
  //   kReading -> kAsking   a read failed: has the sender given the message up?
  // and any but kWhole -> kFailed.
  enum class State : std::uint8_t { kMapping, kWaiting, kReading, kAsking, kWhole, kFailed };
  MailParcel* next = nullptr;  // in the inbox
  Place place = Place::kSlot;
  State state = State::kWhole;
  bool handed_out = false;
  bool let_go = false;             // before it was whole
  bool busy = false;               // a thread maps its memory, without the lock
  MailReading* reading = nullptr;  // while MailReads has it
  std::vector<std::span<const std::byte>> parts;
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // of the message
  MailSlot slot;             // of the batch it came in

  // Of a large one:
  Announcement announcement;
  std::uint64_t span = 0;
  ReceiveMemory::Buffer buffer;  // that it is read into
  std::optional<Error> error;    // of a read; why it has failed
  std::atomic<bool> failed{false};
  std::atomic<std::uint64_t> landed{0};  // of `span`

  // Whether so much has landed, or will not: for waiters, without the lock.
  bool reached(std::uint64_t of_span) const {
    return landed.load(std::memory_order_acquire) >= of_span ||
           failed.load(std::memory_order_acquire);
  }
};

}  // namespace ferry::mail
