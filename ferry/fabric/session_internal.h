#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ferry/bootstrap/frame.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/outbox_internal.h"
#include "ferry/fabric/peer_watch_internal.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

class ChannelCore;
class DeviceCore;

// What a device says of itself to authenticated peers: the blob of the handshake.
struct Introduction {
  PeerIdentity identity;
  std::map<std::string, std::vector<std::byte>> offers;  // by provider

  std::vector<std::byte> encode() const;
  static Result<Introduction> decode(std::span<const std::byte> blob);
};

// Who and where this process is, as its peers are told.
PeerIdentity identity_of_this_process(std::string endpoint);

// Frames of the control connection (docs/wire/control.md).
enum class FrameType : std::uint16_t {
  kPing = 1,
  kPong = 2,
  kOpenLane = 3,       // lane, provider, payload -> answer
  kLaneReady = 4,      // lane
  kCloseLane = 5,      // lane
  kReconnectLane = 6,  // lane: the acceptor's end is broken
  kCall = 7,           // provider, payload -> answer
  kTell = 8,           // provider, payload
  kLookUp = 9,         // milliseconds to wait, name -> remote region
  kAnswer = 10,        // code, text or payload
  kBye = 11,           // nothing: the sender leaves; or milliseconds of silence: it gives us up
};

// One authenticated peer and the control connection to it. Thread-safe; *_on_loop methods belong to
// the control loop. Ends once: then its lanes are closed and every call fails with the cause.
class Session final : public PeerSession, public std::enable_shared_from_this<Session> {
 public:
  Session(DeviceCore& device, bool connector, Fd socket, std::uint32_t number,
          const bootstrap::Hello& peer, const bootstrap::Bytes32& key, Introduction introduction);
  ~Session() override;

  const PeerIdentity& identity() const override { return introduction_.identity; }
  std::uint32_t number() const override { return number_; }
  std::uint32_t number_at_peer() const override { return number_at_peer_; }
  std::span<const std::byte, 32> session_key() const override { return key_; }
  Result<std::vector<std::byte>> call(std::string_view provider, std::span<const std::byte> request,
                                      Deadline deadline) override;
  void tell(std::string_view provider, std::span<const std::byte> notice) override;
  void peer_lost(Error cause) override;
  void lane_broken(Lane& lane, Error cause) override;
  Nanos given_up_after() const override {
    return std::chrono::milliseconds(given_up_ms_.load(std::memory_order_relaxed));
  }

  const std::map<std::string, std::vector<std::byte>>& offers() const {
    return introduction_.offers;
  }
  bool connector() const { return connector_; }
  bool alive() const { return alive_.load(std::memory_order_acquire); }
  Status check_alive() const;
  // How long nothing has been heard of the peer, once that is long enough to be named; else 0.
  Nanos silent_for() const { return Nanos(silent_ns_.load(std::memory_order_acquire)); }
  // Sends one frame and waits for its answer. Not from a loop.
  Result<std::vector<std::byte>> request(FrameType type, std::span<const std::byte> payload,
                                         Deadline deadline);
  void send(FrameType type, std::uint64_t id, std::span<const std::byte> payload);
  void send_lane(FrameType type, std::uint32_t lane);

  // The lanes of this session. open_lane() is the connector's, blocking.
  Result<std::shared_ptr<ChannelCore>> open_lane(std::uint32_t lane, Provider& provider,
                                                 const std::string& why, Deadline deadline);
  Status reconnect_lane(std::uint32_t lane, Deadline deadline);
  std::uint32_t next_lane(std::uint32_t count) { return next_lane_.fetch_add(1) % count; }
  void drop_lane(std::uint32_t lane);

  void start();  // begins to read; after it is known to the control loop
  void ready_on_loop(std::span<const std::byte> first, std::uint32_t events);
  // `awake`: how long this process could have heard the peer since the last call.
  void heartbeat_on_loop(Nanos awake);
  // The peer's process has ended, as the kernel of this host tells.
  void process_ended_on_loop();
  // Reads what has come, and says why the peer left if it said so; else `cause`.
  Error last_words_on_loop(const Error& cause);
  void lane_broken_on_loop(const Lane* lane, const Error& cause);
  void end_on_loop(const Error& cause);
  int fd() const { return socket_.get(); }

 private:
  struct Call {
    std::atomic<bool> done{false};
    Result<std::vector<std::byte>> answer;
  };
  Status receive_on_loop();
  Result<bool> handle_buffered_on_loop();
  Status end_turn_on_loop();
  Status handle_on_loop(const bootstrap::Frame& frame);
  Status handle_lane_on_loop(const bootstrap::Frame& frame);
  void open_on_loop(const bootstrap::Frame& frame);
  void serve_on_loop(const bootstrap::Frame& frame, bool wants_answer);
  void look_up_on_loop(const bootstrap::Frame& frame);
  Status answer_on_loop(const bootstrap::Frame& frame);
  tl::unexpected<Error> bye_on_loop(const bootstrap::Frame& frame);
  void judge_on_loop(PeerWatch::Verdict verdict);
  // Whether bytes have come since the last call that are not read yet.
  bool has_unread_news();
  // Whether the kernel of the peer's host has taken bytes of ours since the last call, or none
  // wait.
  bool host_acknowledges();
  // The connection failed: always kUnavailable, also if the kernel gave up sending.
  tl::unexpected<Error> broken(int error, const char* doing) const;
  void answer(std::uint64_t id, const Result<std::vector<std::byte>>& result);
  Status flush_locked() FERRY_REQUIRES(send_lock_);
  bool has_too_many_answers() FERRY_REQUIRES(send_lock_);
  std::shared_ptr<ChannelCore> core_of(std::uint32_t lane);

  DeviceCore& device_;
  const bool connector_;
  Fd socket_;
  const std::uint32_t number_;
  const std::uint32_t number_at_peer_;
  const bootstrap::Bytes32 key_;
  const Introduction introduction_;
  std::atomic<bool> alive_{true};
  std::atomic<std::uint64_t> next_id_{1};
  std::atomic<std::uint32_t> next_lane_{0};
  bootstrap::FrameReader reader_;
  PeerWatch watch_;                       // on the loop
  int unread_ = 0;                        // on the loop: bytes at the last look, if none was read
  std::uint64_t acknowledged_bytes_ = 0;  // on the loop: by the peer's host, at the last look
  bool process_ended_ = false;            // on the loop
  std::shared_ptr<const Error> goodbye_;  // on the loop: why the peer left, as it said
  std::atomic<std::int64_t> silent_ns_{0};
  std::atomic<std::uint32_t> given_up_ms_{0};  // this side gave the peer up

  bool pinged_ = false;     // in this turn of the loop
  bool unhandled_ = false;  // whole frames may be left in reader_

  Mutex send_lock_;
  Outbox out_ FERRY_GUARDED_BY(send_lock_);
  bool owes_pong_ FERRY_GUARDED_BY(send_lock_) = false;  // one, however many pings have come
  // A paused session is not read: its peer does not take the answers that it asked for. The control
  // loop alone pauses and resumes.
  bool paused_ FERRY_GUARDED_BY(send_lock_) = false;
  std::uint32_t watched_ FERRY_GUARDED_BY(send_lock_) = 0;

  mutable Mutex lock_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Call>> calls_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> cores_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint32_t, std::pair<Provider*, std::shared_ptr<Lane>>> accepted_
      FERRY_GUARDED_BY(lock_);  // not yet said to be ready
  std::shared_ptr<const Error> cause_ FERRY_GUARDED_BY(lock_);
  Mutex opening_;  // one lane is opened at a time; held while blocking
};

}  // namespace ferry::fabric
