#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "ferry/base/fd.h"
#include "tests/contract/fixture.h"

namespace ferry::contract {

// The peer of a two-process run: a device that does what small text messages tell it. Returns the
// exit status of the program. `announce`: prints its endpoint and leaves when standard input ends.
//
//   arena NAME BYTES | own NAME BYTES       make, grant and publish a region
//   stamp NAME SEED | check NAME SEED       fill it; look whether it is filled
//   pong NAME THEIRS BYTES ROUNDS MODE      answer flagged writes, checking every byte
//   push THEIRS BYTES SEED | pull THEIRS BYTES SEED      copy to and from the caller's region
//   add THEIRS TIMES                        that many fetch-adds of 1 on the caller's word
//   busy THEIRS BYTES                       write to the caller's region for ever
//   mute                                    read no messages any more
//   static ... | dynamic ...                send tensors back; see echo.h
//   mail ... | cross ...                    send messages; see mail_echo.h
// The answer is "ok" or what went wrong.
int serve(bool announce);

// A running peer process. The destructor ends it.
class PeerProcess {
 public:
  // Starts this program again as a peer. `listen` names where; empty: any port of the loopback.
  static PeerProcess start(const std::string& listen = "");
  PeerProcess(PeerProcess&&) = default;
  PeerProcess& operator=(PeerProcess&&) = delete;
  ~PeerProcess();

  const std::string& endpoint() const { return endpoint_; }
  void signal(int number) const;
  // Waits until the process is gone.
  void reap();

 private:
  PeerProcess() = default;
  struct Pid {
    pid_t value = -1;
    Pid() = default;
    Pid(Pid&& other) noexcept : value(std::exchange(other.value, -1)) {}
    Pid& operator=(Pid&& other) noexcept {
      value = std::exchange(other.value, -1);
      return *this;
    }
  };
  Pid pid_;
  Fd input_;  // the peer leaves when this closes
  std::string endpoint_;
};

// Tells the peer at the other end of the channel what to do, and waits for its answer.
std::string order(Channel& channel, const std::string& command, Deadline deadline = soon());

// A device here and a peer process there, with a channel to give orders on.
class TwoProcessTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Both count as one: a peer of this machine, or the one that --connect names.
  void start(const Options& options = device_options());
  void expect_order(const std::string& command) { EXPECT_EQ(order(channel_, command), "ok"); }
  bool remote() const { return !settings().connect.empty(); }

  std::optional<PeerProcess> peer_;
  std::optional<Device> device_;
  Channel channel_;

 private:
  Holdings before_;
};

}  // namespace ferry::contract
