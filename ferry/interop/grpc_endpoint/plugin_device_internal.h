#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/device.h"
#include "ferry/mail/mailbox.h"

namespace ferry::interop {

// The process's device and mail room, and the secret that peers must know. They are opened when a
// connection first needs them, and never closed: threads of the program may be in them until the
// process ends.
//
// Thread-safe. device(), room() and secret() are for those who have seen open() succeed.
class PluginDevice {
 public:
  // `reached_at` is the local address at which a peer has reached this process. The first caller
  // opens, others wait for that. Whatever the first open has come to, later ones return.
  Status open(const std::string& reached_at);
  // In the child of a fork(), which has none of the device's threads: open() fails from now on.
  // What was never opened can still be.
  void disown();

  fabric::Device& device() { return *device_; }
  mail::MailRoom& room() { return *room_; }
  const bootstrap::Secret& secret() const { return *secret_; }

 private:
  // kClosed -> kOpening -> kOpen or kFailed; any of the last three -> kDisowned.
  enum class State : std::uint8_t { kClosed, kOpening, kOpen, kFailed, kDisowned };
  // Opens the device and the room, on the thread that has set kOpening.
  Status open_now(const std::string& reached_at);

  std::atomic<State> state_{State::kClosed};
  // Written by the thread that opens, before it leaves kOpening.
  Status outcome_;
  std::optional<bootstrap::Secret> secret_;
  std::optional<fabric::Device> device_;
  std::optional<mail::MailRoom> room_;
};

}  // namespace ferry::interop
