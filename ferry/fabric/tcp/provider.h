#pragma once

#include <memory>

#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric::tcp {

// Lanes over TCP sockets: service threads place bytes straight into the destination region and send
// them straight from the source region. Works wherever peers can reach each other's endpoints.
Result<std::unique_ptr<Provider>> open_tcp_provider(ProviderContext& context);

}  // namespace ferry::fabric::tcp
