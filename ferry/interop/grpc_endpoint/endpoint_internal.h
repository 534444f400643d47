#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/background_internal.h"
#include "ferry/interop/grpc_endpoint/doorbell_internal.h"
#include "ferry/interop/grpc_endpoint/endpoint_schedule_internal.h"
#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_endpoint/link_internal.h"
#include "ferry/interop/grpc_endpoint/wire_internal.h"

namespace ferry::interop {

class Endpoints;

// As gRPC's own endpoint says it, so that calls end with this status.
inline absl::Status unavailable_status(const char* text) {
  auto status = absl::UnknownError(text);
  grpc_core::StatusSetInt(&status, grpc_core::StatusIntProperty::kRpcStatus,
                          GRPC_STATUS_UNAVAILABLE);
  return status;
}

// gRPC's end of a connection whose bytes go over a mailbox. The TCP connection on which it was
// agreed upon carries none: that it lives says that the peer lives.
//
// One write of gRPC's is one message (several if it has very many slices), whose slices are held
// until the peer has it. A read gets what messages there are: small ones copied into one slice,
// large ones where they lie, until so much is lent that the peer may run out of memory.
//
// Thread-safe. Runs on threads of gRPC's, in an ExecCtx: what gRPC calls (read, write, shutdown,
// destroy), what the thread that waits calls (ready, progress), and the end of the wire. Closures
// are never called under lock_, but left to ExecCtx. Between calls at most one read and one write
// are under way; reading_ and writing_ say so to threads without the lock.
class FerryEndpoint final : public grpc_endpoint,
                            public std::enable_shared_from_this<FerryEndpoint> {
 public:
  // How long after the end of the connection messages may still come, where the peer's memory is
  // not mapped here.
  static constexpr auto kDrain = std::chrono::seconds(2);

  // What an endpoint uses of the process's.
  struct Around {
    Doorbell& doorbell;
    Endpoints& endpoints;
    Waker& waker;
    Background& background;
  };
  struct Names {
    std::string peer;
    std::string local;
  };
  // Keeps the doorbell attached. `under` is the server's own endpoint of the connection, or null;
  // it is destroyed with this one.
  static grpc_endpoint* make(const Around& around, std::shared_ptr<Link> link,
                             std::shared_ptr<Wire> wire, grpc_endpoint* under, Names names);
  ~FerryEndpoint();

  // Completes what gRPC waits for, as far as it is there. While another thread sends, which may
  // take a long copy, it does nothing: that thread looks once more afterwards.
  void progress();
  // Whether progress() would complete something that gRPC waits for. Any thread; lock-free. The end
  // of a send may have been seen by any thread that was in the mailbox: then the mailbox has
  // nothing new, but the endpoint has.
  bool ready() const {
    const bool writes = writing_.load(std::memory_order_acquire);
    const bool reads = reading_.load(std::memory_order_acquire);
    if ((!writes && !reads) || busy_.load(std::memory_order_acquire)) return false;
    const auto& mailbox = link_->mailbox();
    const bool ended = writes && !blocked_.load(std::memory_order_relaxed);
    return mailbox.may_be_ready(reads) || (ended && mailbox.open_sends() == 0);
  }
  // Whether only passing time can bring this endpoint on: it drains, or waits for memory. Then
  // progress() is worth trying whenever gRPC's threads are woken. Any thread; lock-free.
  bool waits_for_time() const {
    const bool waits =
        draining_.load(std::memory_order_relaxed) || blocked_.load(std::memory_order_relaxed);
    return waits &&
           (reading_.load(std::memory_order_acquire) || writing_.load(std::memory_order_acquire));
  }
  bool maps() const { return link_->maps(); }

 private:
  static const grpc_endpoint_vtable kVtable;
  FerryEndpoint(const Around& around, std::shared_ptr<Link> link, std::shared_ptr<Wire> wire,
                grpc_endpoint* under, Names names);
  static FerryEndpoint& of(grpc_endpoint* endpoint) {
    from_grpc(endpoint);
    return *static_cast<FerryEndpoint*>(endpoint);
  }

  // gRPC's calls. `done` is run once, when the read has got something, when the peer has all of the
  // write, or at the end of the connection. gRPC has one read and one write under way at most.
  void read(grpc_slice_buffer* into, grpc_closure* done);
  void write(grpc_slice_buffer* from, grpc_closure* done);
  // Ends the connection with this status.
  void shutdown(const absl::Status& why);
  // gRPC is done with the endpoint: ends the connection and gives up gRPC's share of the object.
  void destroy();
  // The wire has ended, or brought bytes although it carries none (`stray`). What the peer has sent
  // may still come, for kDrain at most.
  void wire_down(bool stray);

  // Sends and reads as far as that goes now.
  void resume() FERRY_REQUIRES(lock_);
  // Resumes for as long as the endpoint is ready, within limits, then wakes a sleeping thread if
  // there is work left. Every call of gRPC's ends with it: a thread that went to sleep before may
  // have seen nobody wait for what has come, or not have seen what this thread found in the
  // mailbox.
  void recheck() FERRY_REQUIRES(lock_);

  // Reading: endpoint_read.cc.
  // Completes the read, which is under way, if a message is there. After the end of the connection,
  // what it brought comes first.
  void fill() FERRY_REQUIRES(lock_);
  // Adds a message to the read. False: the peer broke the protocol, and all is over.
  bool take(mail::Message message) FERRY_REQUIRES(lock_);
  // Adds slices that show the message where it lies; the last of them lets go of it.
  void lend(mail::Message message) FERRY_REQUIRES(lock_);
  // Adds one slice with a copy of the message.
  void copy(const mail::Message& message) FERRY_REQUIRES(lock_);

  // Writing: endpoint_write.cc.
  // A byte of the write under way.
  struct Place {
    std::size_t slice = 0;
    std::size_t offset = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Sends what is left of the write, and completes it if the peer has everything, or is gone.
  void push() FERRY_REQUIRES(lock_);
  // Takes the outcome of the message that is under way. False: it still is.
  bool finish_send() FERRY_REQUIRES(lock_);
  // Sends the next message of the write. False: nothing more can be sent for now.
  bool send_next() FERRY_REQUIRES(lock_);
  // Puts the bytes of the slices from next_ on into parts_. Returns where they end.
  Place gather(std::uint64_t most_bytes, std::size_t most_parts) FERRY_REQUIRES(lock_);
  // Decides how the bytes of a message that was not sent are sent: as smaller messages
  // (most_in_a_message_), in pieces (pieces_until_), or not at all, if the peer is gone or takes no
  // pieces either (next_ is the end of the write). False: the peer has no room even for a piece;
  // the write is blocked_, and is tried again after a while. What was decided is in these members,
  // so who ignores the outcome only tries the same piece once more.
  bool reconsider(const Error& error) FERRY_REQUIRES(lock_);
  // The connection is over: what is under way fails, and all that comes later.
  void end(const absl::Status& why) FERRY_REQUIRES(lock_);
  // The same with the status that gRPC gives to broken sockets; the error is logged.
  void end(const Error& error) FERRY_REQUIRES(lock_);
  // Completes the read, which is under way: read_done_ is set before, and null afterwards.
  void finish_read(const absl::Status& status) FERRY_REQUIRES(lock_);
  // The same for the write. If a message of it is still under way, its slices stay: the mailbox may
  // look at them until it is closed.
  void finish_write(const absl::Status& status) FERRY_REQUIRES(lock_);

  const Around around_;
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<Wire> wire_;
  grpc_endpoint* const under_;
  const Names names_;
  std::shared_ptr<FerryEndpoint> grpcs_;  // gRPC's share, until destroy()

  Mutex lock_;
  bool ended_ FERRY_GUARDED_BY(lock_) = false;
  absl::Status why_ FERRY_GUARDED_BY(lock_);
  std::int64_t drained_at_ FERRY_GUARDED_BY(lock_) = 0;  // 0: the connection lives
  std::atomic<bool> draining_{false};                    // it does not

  grpc_slice_buffer* into_ FERRY_GUARDED_BY(lock_) = nullptr;
  grpc_closure* read_done_ FERRY_GUARDED_BY(lock_) = nullptr;
  std::atomic<bool> reading_{false};

  grpc_slice_buffer held_ FERRY_GUARDED_BY(lock_);  // of the write under way
  Place next_ FERRY_GUARDED_BY(lock_);              // what the peer does not have yet
  Place sent_to_ FERRY_GUARDED_BY(lock_);           // the end of the message that was tried last
  Place pieces_until_ FERRY_GUARDED_BY(lock_);      // there is no memory for what is before
  std::uint64_t most_in_a_message_ FERRY_GUARDED_BY(lock_) = Link::most_in_a_message();
  std::optional<mail::Sending> sending_ FERRY_GUARDED_BY(lock_);  // one message at a time
  std::vector<std::span<const std::byte>> parts_ FERRY_GUARDED_BY(lock_);
  grpc_closure* write_done_ FERRY_GUARDED_BY(lock_) = nullptr;
  std::atomic<bool> writing_{false};
  std::atomic<bool> busy_{false};     // a write is being sent, which may take a long copy
  std::atomic<bool> blocked_{false};  // the rest of the write waits for memory
};

// Those of this process. An endpoint enters itself here when it is made, and leaves when gRPC
// destroys it.
class Endpoints final : public EndpointSchedule<FerryEndpoint> {};

}  // namespace ferry::interop
