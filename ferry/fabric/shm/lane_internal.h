// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/shm/large_copies_internal.h"
#include "ferry/fabric/shm/layout_internal.h"
#include "ferry/fabric/shm/messages_internal.h"
#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/source_internal.h"
#include "ferry/fabric/shm/stream_internal.h"
#include "ferry/fabric/shm/team_internal.h"

namespace ferry::fabric::shm {

class ShmLane;
using ShmSource = DoorbellSource<ShmLane>;

// What all lanes of a provider share.
struct LaneShared {
  ProviderContext* context;
  Team* team;  // null: no extra threads
  Capabilities capabilities;
};

// One lane: the caller copies straight into what the peer has granted, as long as that lies in the
// peer's arenas; everything else goes through the rings of the lane's segment. Thread-safe.
class ShmLane final : public Lane {
 public:
  ShmLane(std::shared_ptr<const LaneShared> shared, std::shared_ptr<Peer> peer, ShmSource& source,
          int way);
  ~ShmLane() override;

  // The segment is there and the peer's end is known: the lane is up from now on.
  Status start(std::shared_ptr<const Mapping> segment, std::uint32_t peer_loop,
               std::uint32_t peer_index);

  Transfer post(Request& request) override;
  bool write_now(std::span<const std::byte> local, const RemoteAt& remote, const RemoteAt* flag,
                 std::uint64_t value, bool notify) override;
  bool has_work() const override { return source_.has_work(); }
  Result<std::size_t> take_message(std::span<std::byte> into) override;
  bool has_message() const override;
  void close(const Error& cause) override;
  Result<std::span<std::byte>> map(const RemoteRegion& remote, Deadline deadline) override;
  void wake_peer() const override { peer_->wake_flag_sleepers(); }
  const Capabilities& capabilities() const override { return shared_->capabilities; }
  bool up() const override { return up_.load(std::memory_order_acquire); }

  int progress_on_loop();
  void tick_on_loop(std::int64_t now);
  bool wants_progress() const;
  std::uint32_t index() const { return index_; }
  const std::shared_ptr<Peer>& peer() const { return peer_; }

 private:
  // Exists once the lane has started.
  struct Wires {
    Wires(std::shared_ptr<const Mapping> mapped, int way, std::uint32_t loop, std::uint32_t index,
          const LaneShared& shared, Peer& peer, const std::atomic<bool>& up, memory::RingWriter out,
          memory::RingReader in, memory::RingWriter stream_out, memory::RingReader replies_in,
          memory::RingReader stream_in, memory::RingWriter replies_out);
    std::shared_ptr<const Mapping> segment;
    OneWay& outward;
    OneWay& inward;
    std::uint32_t peer_loop;
    std::uint32_t peer_index;
    StreamSender sender;
    StreamServer server;
    MessageSender messages_out;
    MessageReceiver messages_in;
    LargeCopies copies;
  };

  Transfer post_write(Request& request);
  Transfer post_read(Request& request);
  Transfer post_atomic(Request& request);
  Transfer post_message(Request& request);
  Transfer post_own_read(Request& request);
  Transfer post_stream(Request& request);
  // How far an attempt on mapped memory came.
  enum class Attempt : std::uint8_t { kDone, kUnknown, kNotMapped, kRefused, kFailed };
  using Reach = Peer::Reach;
  static Attempt attempt_of(Reach how) {
    return how == Reach::kUnknown     ? Attempt::kUnknown
           : how == Reach::kNotMapped ? Attempt::kNotMapped
                                      : Attempt::kRefused;
  }
  // Where a write goes.
  struct Aim {
    std::byte* payload = nullptr;
    std::uint64_t* flag = nullptr;  // null: there is none, or it follows what is in the ring
  };
  // Within an InFlight::Section, like all that touches the peer's memory.
  Reach aim(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
            const RemoteRegion* flag, std::uint64_t flag_offset, Aim& out) const;
  Attempt try_write(Request& request, std::optional<Error>& error);
  Attempt try_read(const Request& request);
  Attempt try_atomic(const Request& request, std::uint64_t& found);
  Result<bool> read_by_kernel(const Request& request);
  Result<bool> resolve(const Request& request);
  Transfer why_refused(const Request& request, Rights need) const;
  // Of a large copy in which the peer helped; an error ends the request.
  Status check(LargeCopies::Outcome outcome);
  int put_waiting_messages();
  void broken(const Error& cause);
  Error cause() const;

  const std::shared_ptr<const LaneShared> shared_;
  const std::shared_ptr<Peer> peer_;
  ShmSource& source_;
  const int way_;  // 0: the connecting end
  std::uint32_t index_ = 0;
  std::atomic<bool> up_{false};
  std::unique_ptr<Wires> wires_;
  Mutex close_lock_;  // held by close() until it is done
  bool closed_ FERRY_GUARDED_BY(close_lock_) = false;
  mutable Mutex lock_;
  std::optional<Error> cause_ FERRY_GUARDED_BY(lock_);
  std::vector<std::uint64_t> mapped_ FERRY_GUARDED_BY(lock_);
};

extern template class DoorbellSource<ShmLane>;

}  // namespace ferry::fabric::shm
