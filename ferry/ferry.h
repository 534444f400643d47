#pragma once

// The table of contents of the public API.

#include "ferry/base/clock.h"       // Deadline
#include "ferry/base/error.h"       // Error, Result, Status
#include "ferry/fabric/channel.h"   // Channel: one lane to one peer
#include "ferry/fabric/device.h"    // Device: one way out of this process
#include "ferry/fabric/region.h"    // Region: memory that peers can be let at
#include "ferry/fabric/transfer.h"  // Transfer: one operation in flight

namespace ferry {
using fabric::Channel;
using fabric::Device;
using fabric::Options;
using fabric::Region;
using fabric::RemoteRegion;
using fabric::Rights;
using fabric::Transfer;
using fabric::WaitMode;
}  // namespace ferry
