#pragma once

#include <memory>

#include "ferry/base/error.h"
#include "ferry/fabric/fake/faults.h"

namespace ferry::fabric {
class Provider;
struct ProviderContext;
}  // namespace ferry::fabric

namespace ferry::fabric::fake {

// In-process only: two devices of one process find each other by their ids.
Result<std::unique_ptr<Provider>> open_fake_provider(ProviderContext& context);

}  // namespace ferry::fabric::fake
