#include "ferry/fabric/fake/provider.h"
#include "ferry/fabric/providers_internal.h"
#include "ferry/fabric/shm/provider.h"
#include "ferry/fabric/tcp/provider.h"
#include "ferry/fabric/verbs/provider.h"

namespace ferry::fabric {

const std::vector<std::pair<std::string, ProviderFactory>>& provider_factories() {
  static const std::vector<std::pair<std::string, ProviderFactory>> factories = {
      {"shm", shm::open_shm_provider},
      {"verbs", verbs::open_verbs_provider},
      {"tcp", tcp::open_tcp_provider},
      {"fake", fake::open_fake_provider},
  };
  return factories;
}

bool names_provider(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    auto comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace ferry::fabric
