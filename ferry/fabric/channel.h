#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/fabric/transfer.h"
#include "ferry/fabric/types.h"

namespace ferry::fabric {

class ChannelCore;

// Per operation. `deadline` 0 means Options::operation_deadline from now.
struct OpOptions {
  Deadline deadline{};
  Callback callback{};
  Pace pace = Pace::kPrompt;  // of writes, also flagged ones
};

enum class Direction : std::uint8_t { kWrite, kRead };

// What is known of the peer's process.
enum class PeerState : std::uint8_t {
  kAnswers,
  kSilent,  // it lives and says nothing: stopped, or without a processor; it may speak again
  kLost,    // it has ended, its host is gone, it was given up, or it closed the channel
};

// One of many copies posted together.
struct Copy {
  Direction direction = Direction::kWrite;
  std::span<std::byte> local;
  RemoteAt remote;
};

// One lane to one peer. Thread-safe, but for close(), moving and destruction: no other call may be
// running on this object then. Operations are one-sided: the peer's program takes no part.
//
// On every verb: the local bytes are the library's until the completion, which fires exactly once,
// also on failure and on close. Operations on one channel may complete in any order, except that
// flags and messages are seen by the peer after all that was posted on the channel before them.
class Channel {
 public:
  Channel() = default;
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&&) noexcept = default;
  ~Channel();

  // Copies local bytes into the peer's region, or the peer's bytes here.
  Transfer write(std::span<const std::byte> local, const RemoteAt& remote, OpOptions options = {});
  Transfer read(std::span<std::byte> local, const RemoteAt& remote, OpOptions options = {});
  // Many copies, one completion: done when all are, failed with the first failure.
  Transfer copy(std::span<const Copy> copies, OpOptions options = {});

  // Writes the bytes, then stores `value` into the 64-bit word at `flag`, which is aligned to 8: a
  // reader that sees the value sees every byte. `notify` false promises that the receiver spins,
  // which saves a wake-up.
  Transfer write_flagged(std::span<const std::byte> local, const RemoteAt& remote,
                         const RemoteAt& flag, std::uint64_t value, OpOptions options = {},
                         bool notify = true);

  // On a 64-bit word, 8-aligned, of a region granted with kAtomic; Transfer::value() is what was
  // there before. Words used by atomics are touched through channels only, also by their owner.
  Transfer fetch_add(const RemoteAt& word, std::uint64_t addend, OpOptions options = {});
  Transfer compare_swap(const RemoteAt& word, std::uint64_t expected, std::uint64_t desired,
                        OpOptions options = {});

  // A small message (at most capabilities().max_message bytes), delivered in order.
  Transfer send(std::span<const std::byte> message, OpOptions options = {});
  // The next message: its size. kDeadlineExceeded if none comes, kUnavailable if the peer is gone.
  Result<std::size_t> receive(std::span<std::byte> into, Deadline deadline,
                              WaitMode mode = WaitMode::kAdaptive);

  // Waits until the local 64-bit word (which the peer writes as a flag) is at least `value`,
  // wrapping like a sequence number. Makes progress and helps with the peer's copy meanwhile.
  Status wait_flag(const std::byte* word, std::uint64_t value, Deadline deadline,
                   WaitMode mode = WaitMode::kAdaptive) {
    bool aligned = reinterpret_cast<std::uintptr_t>(word) % 8 == 0;
    int looks = mode == WaitMode::kSleep ? 0 : __atomic_load_n(&looks_, __ATOMIC_RELAXED);
    if (core_ != nullptr && aligned && flag_comes(word, value, looks)) return {};
    return wait_for_flag(word, value, deadline, mode);
  }

  // The peer's address book: a region by the name it was published under; waits for it to appear.
  Result<RemoteRegion> look_up(std::string_view name, Deadline deadline);

  // The peer's region as memory of this process, where capabilities().maps_peer says so. The peer
  // has handed it over already, unless it is slow: kDeadlineExceeded says that it did not in time.
  // A deadline that is past looks at what has arrived and does not wait.
  Result<std::span<std::byte>> map(const RemoteRegion& remote, Deadline deadline);
  Result<std::span<std::byte>> map(const RemoteRegion& remote);  // waits for a second at most

  // After a release-store of a flag to memory that map() gave: wakes a receiver that sleeps until a
  // flag comes. A receiver that spins needs none.
  void wake_peer() const;

  Capabilities capabilities() const;
  std::string provider() const;       // "shm", "tcp", ...
  std::string why() const;            // why this provider was chosen for this peer
  std::string peer_endpoint() const;  // where the peer's device listens
  DeviceId peer() const;
  std::string peer_host() const;  // the peer's host_id()
  bool alive() const;
  PeerState peer_state() const;
  // How long the peer has been silent, if peer_state() is kSilent; else 0.
  Nanos silent_for() const;
  // Fails what is pending with kCancelled and gives the lane up. The destructor does the same.
  void close();
  explicit operator bool() const { return core_ != nullptr; }

 private:
  friend class DeviceCore;
  friend class Device;
  explicit Channel(std::shared_ptr<ChannelCore> core,
                   std::vector<std::shared_ptr<ChannelCore>> stripes = {})
      : core_(std::move(core)), stripes_(std::move(stripes)) {}
  bool write_now(std::span<const std::byte> local, const RemoteAt& remote, const RemoteAt* flag,
                 std::uint64_t value, bool notify, const OpOptions& options) const;
  Status wait_for_flag(const std::byte* word, std::uint64_t value, Deadline deadline,
                       WaitMode mode);
  Transfer post_write(std::span<const std::byte> local, const RemoteAt& remote, OpOptions& options);
  Transfer post_flagged(std::span<const std::byte> local, const RemoteAt& remote,
                        const RemoteAt& flag, std::uint64_t value, OpOptions& options, bool notify);
  Transfer post(struct Request& request);
  Transfer post_atomic(struct Request& request, const RemoteAt& word, OpOptions options);
  std::uint32_t session_number() const;
  std::shared_ptr<ChannelCore> core_;
  std::vector<std::shared_ptr<ChannelCore>> stripes_;  // other lanes for large copies
  // How often wait_flag() looks before it makes progress: 0 if the last wait found work to do, for
  // then the next flag needs progress too.
  int looks_ = 0;
};

}  // namespace ferry::fabric
