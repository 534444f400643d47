#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ferry/fabric/fake/node_internal.h"
#include "ferry/fabric/fake/script_internal.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric::fake {

// One end of a link. Operations run in the progress of its loop, memory to memory, as the script
// wants them to; their completions then arrive through a queue of their own, which may lose, repeat
// and reorder them.
class FakeLane final : public Lane, public Loop::Source {
 public:
  FakeLane(Loop& loop, OperationPool& operations, std::shared_ptr<PeerSession> peer,
           std::shared_ptr<Node> peer_node, std::shared_ptr<Link> link, int end);
  ~FakeLane() override;

  Transfer post(Request& request) override;
  Result<std::size_t> take_message(std::span<std::byte> into) override;
  bool has_message() const override;
  void close(const Error& cause) override;
  Result<std::span<std::byte>> map(const RemoteRegion& remote, Deadline deadline) override;
  void wake_peer() const override { peer_node_->wake(); }
  const Capabilities& capabilities() const override { return capabilities_; }
  bool up() const override { return up_.load(std::memory_order_acquire) && !link_->broken(); }

  int progress_on_loop() override;
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override { return pending_.load(std::memory_order_relaxed) != 0; }

  // Of a lane that is made now.
  static Capabilities what_it_can();

 private:
  // What is remembered of an operation, in its scratch.
  struct Job {
    std::uint64_t sequence;
    std::byte* local;
    std::size_t length;
    std::size_t left;  // payload bytes still to move
    RemoteRegion remote;
    std::uint64_t offset;
    Flag flag;
    bool flagged;
    bool executed;
    std::uint64_t operand;
    std::uint64_t compare;
    Fate fate;
  };
  struct Completion {
    std::uint64_t sequence;
    std::optional<Error> error;
    std::uint64_t value;
    bool shuffle;
  };
  struct Step {
    bool executed = false;
    std::optional<Error> error;
    std::uint64_t value = 0;
  };

  int take_posted();
  int execute_some();
  Step step(Operation& op, Job& job, bool all_before);
  Step move_payload(Operation& op, Job& job);
  Step run_atomic(Operation& op, Job& job);
  Step store_flag(Job& job);
  bool start_now(const Job& job) const;
  void complete(Job& job, Step outcome);
  int deliver_completions();
  void end(std::uint64_t sequence, Status status, std::uint64_t value = 0);
  void end_all(const Error& cause);
  void break_up(const Error& cause, bool peer_gone);

  OperationPool& operations_;
  const std::shared_ptr<PeerSession> peer_;
  const std::shared_ptr<Node> peer_node_;
  const std::shared_ptr<Link> link_;
  const int end_;
  const Capabilities capabilities_ = what_it_can();
  std::atomic<bool> up_{true};
  std::atomic<std::uint64_t> pending_{0};

  SpinLock post_lock_;
  std::vector<Operation*> posted_ FERRY_GUARDED_BY(post_lock_);
  std::optional<Error> cause_ FERRY_GUARDED_BY(post_lock_);  // why it is down

  // The token's holder only.
  std::uint64_t next_sequence_ = 1;
  std::vector<Operation*> taken_;                  // scratch of take_posted
  std::vector<Operation*> waiting_;                // not executed yet, oldest first
  std::map<std::uint64_t, Operation*> in_flight_;  // all that have not ended, by sequence
  std::vector<Completion> completions_;            // on their way to us

  Mutex close_lock_;
  bool removed_ FERRY_GUARDED_BY(close_lock_) = false;
};

}  // namespace ferry::fabric::fake
