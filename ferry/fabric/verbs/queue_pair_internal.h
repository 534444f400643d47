#pragma once

#include <cstdint>
#include <string>

#include "ferry/fabric/options.h"
#include "ferry/fabric/verbs/adapter_internal.h"
#include "ferry/fabric/verbs/completion_queue_internal.h"
#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {

// One RC queue pair and its connection to the peer's.
//
// Opened and connected by the thread that makes the lane, posted to under the backlog's lock,
// destroyed by the token's holder when the backlog is closed.
class QueuePair {
 public:
  // Ready to be connected; the errors name the peer.
  static Result<QueuePair> open(const Adapter& adapter, const CompletionQueue& completions,
                                const std::string& peer_name);

  // What the peer needs to connect its end.
  LaneHello hello() const;
  // From here on it receives and sends.
  Status connect(const LaneHello& peer, const Options& options, const std::string& peer_name);
  // Hands a chain of work requests to the device; 0 or the errno.
  int post(ibv_send_wr* requests) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(handle_.get(), requests, &bad);
  }
  // From here on the device touches no buffer of any operation that was posted.
  void destroy() { handle_.reset(); }
  bool destroyed() const { return handle_ == nullptr; }

  std::uint32_t number() const { return number_; }
  // How many bytes a work request may carry itself.
  std::uint32_t inline_bytes() const { return inline_bytes_; }
  // Whether the bytes of one write land in ascending order.
  bool writes_in_order() const {
    return ibv_query_qp_data_in_order(handle_.get(), IBV_WR_RDMA_WRITE, 0) != 0;
  }

 private:
  explicit QueuePair(const Adapter& adapter) : adapter_(adapter) {}
  Status create(const CompletionQueue& completions, const std::string& peer_name);
  Status to_init();
  Status to_ready_to_receive(const LaneHello& peer, const Options& options,
                             const std::string& peer_name);
  Status to_ready_to_send(const LaneHello& peer, const Options& options,
                          const std::string& peer_name);

  const Adapter& adapter_;
  Handle<ibv_qp> handle_;
  std::uint32_t number_ = 0;
  std::uint32_t psn_ = 0;
  std::uint32_t inline_bytes_ = 0;
};

}  // namespace ferry::fabric::verbs
