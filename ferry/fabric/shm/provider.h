#pragma once

#include <memory>

#include "ferry/base/error.h"

namespace ferry::fabric {
class Provider;
struct ProviderContext;
}  // namespace ferry::fabric

namespace ferry::fabric::shm {

// Processes of one user on one machine: arenas are mapped into the peer, so the caller copies, or
// uses the peer's memory in place. Fails with the reason why this host cannot do that.
Result<std::unique_ptr<Provider>> open_shm_provider(ProviderContext& context);

}  // namespace ferry::fabric::shm
