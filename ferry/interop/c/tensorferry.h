#pragma once

// The C interface of Tensorferry: libtensorferry.so. Why it is as it is: docs/design/python.md.
//
// - A function that can fail returns ferry_error*: null for success, else an object that the caller
//   frees. Results are written only on success.
// - Handles are opaque, and have shares in what they stand on: they may be freed in any order, and
//   freeing null does nothing. A handle belongs to the process that made it: after fork() the child
//   gets FERRY_FAILED_PRECONDITION from every call, and freeing does nothing there.
// - ferry_device and ferry_channel are for any number of threads, other handles for one at a time.
// - Times are nanoseconds from now; what takes longer returns FERRY_DEADLINE_EXCEEDED. A negative
//   time of a wait never ends; 0 looks once.
// - Options begin with their size: set `size` to sizeof, the rest to 0, and change what you need. 0
// and null
//   stand for the default.
// - Text that is returned as const char* lives as long as its handle.

#include "ferry/interop/c/device.h"
#include "ferry/interop/c/kvstore.h"
#include "ferry/interop/c/mailbox.h"
#include "ferry/interop/c/ps.h"
#include "ferry/interop/c/tensors.h"
