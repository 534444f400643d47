#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// Where a scheduler keeps its state: one image at a time, whole or not at all. One thread.
class Store {
 public:
  // "etcd://host:port/key"; else a file, or a folder that there is: `scheduler.state` in it. A file
  // is this store's alone until its end: kFailedPrecondition if another one has it.
  static Result<std::unique_ptr<Store>> open(const std::string& where);
  virtual ~Store() = default;

  // The first call. None: nothing was kept yet. kDataLoss for what no store has written, which
  // stays as it is.
  virtual Result<std::optional<Bytes>> load() = 0;
  // In the place of what was there. kAborted: another scheduler has saved meanwhile. What
  // kUnavailable and kResourceExhausted say may pass.
  virtual Status save(const Bytes& image) = 0;
};

// load() and save(), again while what is wrong may pass: until the deadline, with a line in the log
// each time; for 10 s.
Result<std::optional<Bytes>> load_patiently(Store& store, Deadline deadline);
Status save_patiently(Store& store, const Bytes& image);

// The key of a store in etcd. Whoever saves last has it: the others find that when they save.
Result<std::unique_ptr<Store>> open_etcd(const std::string& where);

}  // namespace ferry::ps
