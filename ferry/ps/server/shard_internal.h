#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"
#include "ferry/ps/server/image_internal.h"
#include "ferry/ps/server/part_internal.h"

namespace ferry::ps {

// What a shard did, counted.
struct ShardStats {
  std::uint64_t entries = 0;
  std::uint64_t in_place = 0;  // payloads that were read where the worker had them
  std::uint64_t bytes = 0;     // of payloads
  std::uint64_t steps = 0;     // that were applied
  std::uint64_t breaches = 0;
};

// One thread that owns parts of tensors, and a ring for each worker. All but the constructor and
// run() is for its thread: call it within run().
class Shard {
 public:
  // `waiting`: nothing but first values is taken before install().
  static Result<std::unique_ptr<Shard>> open(fabric::Device& device, const JobOptions& job,
                                             bool alone, bool waiting);
  ~Shard();

  // Ends its thread; what it owns stays until destruction.
  void stop();
  // The job goes on without this server: no entry is taken any more. For any thread.
  void retire() { retired_ = true; }
  // Runs the command on the shard's thread, between two entries, and waits for it.
  void run(const std::function<void()>& command);

  // `words` is the worker's line for this shard.
  Result<ShardPlace> attach(std::uint32_t rank, std::shared_ptr<fabric::Channel> channel,
                            const fabric::RemoteAt& words);
  void add_memory(std::uint32_t rank, std::span<const std::byte> memory);
  // Where the worker wants what it asks to have sent back.
  void add_landing(std::uint32_t rank, std::uint32_t part, const fabric::RemoteAt& at);
  // Parts are numbered in the order in which they come; a dropped one keeps its number.
  std::uint32_t add(std::unique_ptr<Part> part);
  void remove(std::uint32_t part);
  Part& part(std::uint32_t number) { return *parts_[number]; }
  Part* part_of(std::uint32_t tensor);  // null: nothing of it is here

  struct Frozen {
    std::uint64_t ended = 0;   // the last step that it ended
    std::uint64_t folded = 0;  // the open step, if something of it was added up there
  };
  Frozen freeze(std::uint32_t rank);
  // `anew`: a step that begins anew, perhaps the next one.
  void settle(std::uint32_t rank, std::uint64_t through, const Anew& anew);
  // No step is applied from now on, until somebody is admitted, or nobody.
  void hold() { held_ = true; }
  // The last step that whoever had this rank has ended, and that is known to count.
  std::uint64_t last_of(std::uint32_t rank) const;
  // The worker is part of all steps after that one.
  void admit(std::uint32_t rank, std::uint64_t since, std::uint32_t attempt);
  void release();
  // An image is made as soon as that step is applied; 0: none is wanted any more.
  void cut(std::uint64_t step);
  std::shared_ptr<ShardImage> image() const { return image_; }
  // It goes on from the image; `restore` gives its parts their values.
  void install(const ShardImage& image, const std::function<void()>& restore);
  void abort();
  // The job goes on without some server: workers are told before anything that follows from it.
  void move_on(std::uint64_t view);
  std::uint64_t clock() const { return clock_; }
  // Whether workers have pushed something that is not applied yet.
  bool at_rest() const;
  const ShardStats& stats() const { return stats_; }

 private:
  static constexpr std::uint64_t kForEver = Member::kForEver;
  static constexpr std::uint32_t kConsumed = ~0U;
  // A payload in a slot that is still needed, or waits for those before it.
  struct Kept {
    std::uint32_t part = 0;
    std::uint32_t block = kConsumed;
  };
  struct Link {
    std::uint32_t rank = 0;
    std::shared_ptr<fabric::Channel> channel;
    fabric::RemoteAt words{fabric::RemoteRegion{}};
    fabric::Region ring;
    fabric::Region own_slots;             // of one that came back
    const std::byte* slots_at = nullptr;  // its slots of the pool, or its own
    std::vector<std::span<const std::byte>> memories;
    std::map<std::uint32_t, fabric::RemoteAt> landings;  // by part
    std::set<std::uint32_t> wants;                       // parts, in the open step
    std::uint64_t taken = 0;
    std::uint64_t slots = 0;
    std::uint64_t told_landed = 0;
    std::uint64_t told_slots = 0;
    std::deque<Kept> kept;
    bool frozen = false;
    bool waits = false;  // its next entry has to wait for others
    bool asks = false;   // it waits for word of what it has just sent
  };
  struct Verdict {
    std::uint32_t rank = 0;
    std::uint64_t through = 0;
    Anew anew;
  };
  enum class Outcome { kTaken, kLater, kBreach };

  Shard(fabric::Device& device, const JobOptions& job, bool alone, bool waiting)
      : device_(device), job_(job), alone_(alone), waiting_(waiting) {}
  bool sync() const { return job_.consistency == Consistency::kSync; }
  void work();
  void run_commands();
  bool stirs() const;
  bool turn();
  bool serve(Link& link);
  Outcome take(Link& link, const Entry& entry);
  Outcome take_end(const Link& link, const Entry& entry);
  Outcome take_push(Link& link, const Entry& entry);
  Outcome take_rows(Link& link, const Entry& entry);
  Outcome take_payload(Link& link, const Entry& entry);
  const std::byte* payload(const Link& link, const Entry& entry) const;
  Status give_slots(Link& link, ShardPlace& place);
  bool counts(const Member& member) const {
    return member.former > clock_ || (member.since <= clock_ && member.through > clock_);
  }
  bool counts(std::uint32_t rank) const { return counts(members_[rank]); }
  bool lower_ranks_ended(std::uint32_t rank) const;
  bool can_fold(const Kept& kept, std::uint32_t rank) const;
  void fold_some(Link& link);
  void used_slot(Link& link, const Kept& kept);
  bool step_ended() const;
  void apply_step();
  void go_on();
  void begin_anew(Anew anew);
  void move_clock();
  void take_image();
  void clear_dead_seats() const;
  void forget_former();
  // Tells a worker what it would know if it had been there from the beginning.
  void greet(Link& link) const;
  void send_back(std::uint32_t part, std::uint32_t block);
  void tell(Link& link);
  void tell_word(Link& link, std::size_t word, std::uint64_t value) const;

  fabric::Device& device_;
  const JobOptions job_;
  const bool alone_;  // the only shard of the job
  fabric::Region pool_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<Link>> links_;   // by rank; null: nobody
  std::vector<std::unique_ptr<Link>> former_;  // whose slots may still be part of a step
  std::vector<Member> members_;
  std::uint64_t clock_ = 0;
  std::uint32_t attempt_ = 0;  // at the open step
  Anew later_;                 // of the step after it
  std::uint64_t view_ = 0;
  bool held_ = false;
  // For an image. Steps are in the future until then; first values are taken.
  bool waiting_;
  std::vector<Verdict> verdicts_;  // that came meanwhile
  std::uint64_t cut_ = 0;          // the step after which an image is made
  std::shared_ptr<ShardImage> image_;
  ShardStats stats_;

  Mutex lock_;
  std::condition_variable_any ran_;
  std::deque<const std::function<void()>*> commands_ FERRY_GUARDED_BY(lock_);
  std::uint64_t commands_run_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint64_t commands_given_ FERRY_GUARDED_BY(lock_) = 0;
  std::atomic<bool> commanded_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> retired_{false};
  std::thread thread_;
};

}  // namespace ferry::ps
