#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ferry/fabric/options.h"
#include "ferry/mail/wait_spin.h"
#include "ferry/ps/update.h"

namespace ferry::ps {

struct ServerOptions {
  std::string scheduler;           // its endpoint
  fabric::Options device{};        // of the data; control messages use tcp at the same address
  std::uint32_t shards = 1;        // threads that own blocks
  std::uint64_t memory_bytes = 0;  // most that tensors may take; 0: half of the machine's
  std::map<std::string, UpdateFunction> functions{};  // for Update::function
};

// Counts since it was opened.
struct ServerStats {
  std::uint64_t tensors = 0;
  std::uint64_t memory_bytes = 0;  // registered memory that is in use
  std::uint64_t entries = 0;       // requests of workers
  std::uint64_t bytes = 0;         // of their payloads
  std::uint64_t in_place = 0;      // payloads that were read where the worker had them
  std::uint64_t steps = 0;         // applied, over all shards
  std::uint64_t breaches = 0;      // workers that broke the protocol
  // Of waits for workers: what is kept for the paths to them, unless Options::spin says one.
  mail::SpinInUse spin = {};
};

// Owns blocks of the model and applies gradients to them, on threads of its own. Thread-safe, but
// for moving and destruction.
class Server {
 public:
  // Joins the job of the scheduler. If it has all its servers, and two copies of each block, this
  // one waits for the place of one that goes (kSync).
  static Result<Server> open(ServerOptions options, Deadline deadline);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  std::uint32_t index() const;
  std::string endpoint() const;  // of the data
  // Until the job is over. kAborted: it has failed. kUnavailable: the scheduler is gone.
  // kDeadlineExceeded: it goes on.
  Status wait(Deadline deadline);
  ServerStats stats() const;

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::ps
