#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferry/mail/wait_spin.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "ferry/ps/worker/context_internal.h"
#include "ferry/ps/worker/shard_link_internal.h"

namespace ferry::ps {

// Whether a new view may be acted upon by connecting to servers that have come. Not while entries
// of a call are being posted: a step is posted to the servers that were there when it began.
enum class Newcomers : std::uint8_t { kConnect, kLater };

// Which servers are part of the job, as far as this worker knows, and its links to their shards.
// The links of a server are those to its own shards, then those to the second copies that it has
// (see the design note). Used by the thread that calls the worker.
//
// Between calls: a server that is removed is neither written to, waited for nor read; a place in
// `servers_` has the last server that this worker has tried to connect to.
class Membership {
 public:
  // Tells a server that was just connected all that it would know of this worker if it had been
  // there from the beginning.
  using Register = std::function<Status(std::uint32_t server, Deadline deadline)>;

  Membership(WorkerContext& context, Register register_with)
      : context_(context), register_with_(std::move(register_with)) {}
  // Closes the channels: before memory that servers use goes.
  void close();

  // Connects to all servers that are part of the job.
  Status join(std::span<const ServerPlace> places, Deadline deadline);

  std::uint32_t servers() const { return static_cast<std::uint32_t>(servers_.size()); }
  bool is_removed(std::uint32_t server) const { return servers_[server].removed; }
  fabric::Channel& channel(std::uint32_t server) { return servers_[server].channel; }
  // Whether a server maps this worker's memory, or lets it map its own.
  bool maps_memory() const;

  std::uint32_t shards() const {  // of the job, without copies
    return static_cast<std::uint32_t>(links_.size() / context_.job.replicas);
  }
  std::deque<ShardLink>& links() { return links_; }
  ShardLink& link_of(std::uint32_t shard, std::uint32_t copy);
  // A shard that has been there from the beginning, or has caught up.
  const ShardLink& reference_shard() const;
  // Whether it is so for every shard that is not removed.
  template <class Check>
  bool everywhere(Check check) const {
    return std::all_of(links_.begin(), links_.end(),
                       [&](const ShardLink& link) { return link.is_removed() || check(link); });
  }
  // The same for those that have this step.
  template <class Check>
  bool everywhere_in(std::uint64_t step, Check check) const {
    return everywhere([&](const ShardLink& link) { return !link.has_step(step) || check(link); });
  }
  // Whether a shard has begun a later attempt, or the job has ended.
  bool has_later_attempt(std::uint32_t attempt) const {
    return !everywhere([&](const ShardLink& link) { return link.attempt() <= attempt; });
  }
  // The last attempt that a shard has begun.
  std::uint64_t newest_attempt() const;

  // The number of the view that was acted upon last.
  std::uint64_t view() const { return view_; }
  // Whether shards say that there is a newer view than this worker knows.
  bool is_view_stale() const;
  // Asks the scheduler for the view, removes servers, and connects to those who have come.
  Status fetch_view(Newcomers newcomers, Deadline deadline);
  // The same if a shard, or a channel that has ended, says that something has changed.
  Status refresh_view(Newcomers newcomers, Deadline deadline);
  // Fetches the view until all newcomers there are were connected. Only between two calls' entries.
  Status sync_view(Deadline deadline);
  // Whether the job goes on for this worker. kAborted: it is over, and why. kUnavailable, where a
  // job has one copy of each block: it names a server that is gone. Callers ask this before they
  // ask for the view: a job that is over has none.
  Status check_job_goes_on() const;

  // After a failure at a server: waits until the job goes on without that server. OK: it does. Else
  // the failure itself: the server is alive, the job has one copy, or the deadline has passed.
  Status await_removal(std::uint32_t server, const Error& problem, Newcomers newcomers,
                       Deadline deadline);
  // Waits for an operation on the server's channel; no longer than the server is part of the job.
  Status await(std::uint32_t server, fabric::Transfer transfer, Deadline deadline);
  // Asks a server. Nothing if the job goes on without the server.
  Result<std::optional<Bytes>> ask(std::uint32_t server, Ask what, const Bytes& wish,
                                   Deadline deadline);

 private:
  struct ServerLink {
    std::string endpoint;  // of its data; empty: none has been there
    std::unique_ptr<RpcClient> control;
    fabric::Channel channel;
    fabric::Region words;          // Words of its shards
    std::uint32_t generation = 0;  // Newcomer::turn; 0: the first in its place
    std::uint32_t shards = 0;
    std::uint32_t first_shard = 0;  // counted over all servers
    std::uint32_t first_link = 0;
    bool removed = false;  // the job goes on without it
  };

  // Makes the links of a server, of which nothing is known but how many shards it has. In the order
  // of servers: shards are counted over all of them.
  void add_links(std::uint32_t server, std::uint32_t shards);
  // Makes the server's links new, and gives them Words that its shards write to.
  Status prepare_links(std::uint32_t server);
  // Connects to the server, and asks it for the rings of its shards. After prepare_links().
  Status attach(std::uint32_t server, const ServerPlace& place, Deadline deadline);
  // Calls `change` for each link of the server.
  template <class Change>
  void change_links(const ServerLink& server, Change change);
  // The job goes on without the server. Closes its channel, unless memory is mapped through it,
  // which the user may still look at.
  void remove_server(std::uint32_t server);
  // Connects to the server that takes a place, and leaves what is known of the one before in past_.
  // False: the newcomer is not there, which the scheduler is about to see.
  bool connect_newcomer(const Newcomer& newcomer, Deadline deadline);
  // The part of it that can fail: attaches, and registers what the newcomer has to know.
  Status attach_newcomer(const Newcomer& newcomer, Deadline deadline);
  // kUnavailable once the job goes on without the server.
  Status check_server(std::uint32_t server, Deadline deadline);

  WorkerContext& context_;
  const Register register_with_;
  mail::WaitSpin spin_;
  std::vector<ServerLink> servers_;
  // Servers whose place was taken: the user may look at their memory, and leases are let go of
  // there.
  std::vector<ServerLink> past_;
  std::deque<ShardLink> links_;
  JobView known_;  // what the scheduler said last
  std::uint64_t view_ = 0;
  bool joined_ = false;
  bool must_connect_ = false;  // a newcomer is not connected yet
};

}  // namespace ferry::ps
