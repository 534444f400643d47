// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ferry/base/fd.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/tcp/frame_handler_internal.h"
#include "ferry/fabric/tcp/receiver_internal.h"
#include "ferry/fabric/tcp/sender_internal.h"
#include "ferry/fabric/tcp/source_internal.h"

namespace ferry::fabric::tcp {

class TcpLane;
using TcpSource = SocketSource<TcpLane>;

// One socket. post() and take_message() are for any thread; *_on_loop for the token's holder.
class TcpLane final : public Lane, public std::enable_shared_from_this<TcpLane> {
 public:
  static const Capabilities& what_it_can();

  TcpLane(TcpSource& source, ProviderContext& context, std::shared_ptr<PeerSession> peer,
          std::uint32_t number);
  ~TcpLane() override;

  // Takes the socket, whose handshake is over; `rest` are bytes that came behind it.
  Status start(Fd socket, std::span<const std::byte> rest);

  Transfer post(Request& request) override;
  Result<std::size_t> take_message(std::span<std::byte> into) override;
  bool has_message() const override { return !inbox_.empty(); }
  void close(const Error& cause) override;
  void abandon(const Error& cause) override;
  const Capabilities& capabilities() const override { return what_it_can(); }
  bool up() const override { return up_.load(std::memory_order_acquire); }

  // Receives and sends what there is; returns how much was done. Unless it is to try the socket,
  // it receives only if an event said that there is something.
  int progress_on_loop(bool try_socket);
  void ready_on_loop(std::uint32_t epoll_events);
  // Acknowledgements that waited for something to ride on leave now.
  void arm_on_loop();
  void tick_on_loop(std::int64_t now);
  // Whether there is work that no event of the socket will tell of.
  bool has_work_on_loop() const;
  PeerSession& peer() const { return *peer_; }
  void wait_until_quiet() { sender_.wait_until_quiet(); }
  bool is_shut_on_loop() const { return shut_; }
  int fd() const { return socket_.get(); }
  SourceEntry<TcpLane>& in_source() { return in_source_; }

 private:
  // Whether what is queued may wait for what is posted next, or for whoever makes progress and
  // finds it old. If all of them sleep, nobody would: whoever goes to sleep says so first, and
  // looks for it then.
  bool may_leave_late();
  // Receives what there is; returns how much that was.
  int receive_on_loop();
  // Has the kernel call the socket readable only when so many bytes have arrived, within limits: a
  // sleeper in the middle of a large frame is not to be woken for every few packets of it.
  void wake_at_on_loop(std::uint64_t bytes);
  // Takes bytes that were read with the handshake.
  Status take_rest_on_loop(std::span<const std::byte> rest);
  // The lane is broken: shuts it, and asks the peer's session for a new one.
  void break_on_loop(const Error& cause);
  // The peer has broken the protocol: shuts the lane, and ends the peer's session.
  void lose_peer_on_loop(const Error& cause);
  // What operations fail with when the peer has closed the lane on purpose.
  Error goodbye_error() const;
  // Closes the socket and ends all operations with the cause, the first time; those of `first` end
  // as cancelled or too late. `goodbye`: the peer is told.
  void shut_on_loop(const Error& cause, bool goodbye, Chain first = {});
  // Why the lane is not up.
  Error cause();

  TcpSource& source_;
  OperationPool& operations_;
  const std::shared_ptr<PeerSession> peer_;
  const std::uint32_t number_;
  Fd socket_;
  Window window_;
  Inbox inbox_;
  Sender sender_;
  FrameHandler frames_;
  Receiver receiver_;
  std::atomic<bool> up_{false};
  SpinLock cause_lock_;
  std::optional<Error> cause_ FERRY_GUARDED_BY(cause_lock_);

  // Of the token's holder.
  bool shut_ = false;
  bool readable_ = false;  // an event said so and the socket has not been emptied since
  bool ended_ = false;     // the peer's end is closed: read until the end
  int wake_at_ = 1;        // bytes that must have arrived before the socket is called readable
  unsigned looks_ = 0;     // at the socket since something waits to be sent late
  SourceEntry<TcpLane> in_source_;
};

extern template class SocketSource<TcpLane>;

}  // namespace ferry::fabric::tcp
