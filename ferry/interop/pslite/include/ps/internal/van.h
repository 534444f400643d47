#pragma once

#include <ps/base.h>
#include <ps/internal/message.h>

#include <atomic>

namespace ps {

// How messages travel. Programs ask it who they are; the transport is the library's own
// (FERRY_PROVIDER), whatever DMLC_PS_VAN_TYPE says. Thread-safe.
class Van {
 public:
  Van(const Van&) = delete;
  Van& operator=(const Van&) = delete;
  ~Van() = default;

  // This process; good from Start() to Finalize(0).
  const Node& my_node() const;
  bool IsReady() const;
  int GetTimestamp() { return timestamp_++; }
  // Sends to meta.recver: the bytes of the message's arrays.
  int Send(const Message& msg);

 private:
  friend class Postoffice;
  Van() = default;
  std::atomic<int> timestamp_{0};
};

}  // namespace ps
