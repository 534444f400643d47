#pragma once

#include "ferry/base/error.h"
#include "ferry/memory/block.h"

namespace ferry::memory {

// What a transport does to make a block reachable (verbs: ibv_reg_mr; shm, tcp: bookkeeping).
//
// Called only when blocks are made and dropped, never per transfer; from any thread, one call at a
// time for the blocks of one Pool. Must not call back into that Pool.
class Registrar {
 public:
  virtual ~Registrar() = default;
  // After a failure the block is not attached: detach is not called for it.
  virtual Status attach(const Block& block) = 0;
  // The bytes are still mapped during the call and gone after it.
  virtual void detach(const Block& block) = 0;
};

}  // namespace ferry::memory
