#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

using ProviderFactory = Result<std::unique_ptr<Provider>> (*)(ProviderContext&);

// All providers of this build, best first.
const std::vector<std::pair<std::string, ProviderFactory>>& provider_factories();

// Whether the comma-separated list names it.
bool names_provider(std::string_view list, std::string_view name);

}  // namespace ferry::fabric
