// Data path.
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ferry/fabric/fence_internal.h"

namespace ferry::fabric {

// Asked once per process; a child of fork() inherits the registration.
const bool kHasMembarrier =
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;

void heavy_fence() {
  full_fence();
  if (kHasMembarrier) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace ferry::fabric
