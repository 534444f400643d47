#include <arpa/inet.h>

#include <algorithm>
#include <tuple>

#include "ferry/fabric/verbs/gid_internal.h"

namespace ferry::fabric::verbs {

std::string_view name_of(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoce1:
      return "RoCE v1";
    case GidType::kRoce2:
      return "RoCE v2";
  }
  return "unknown";
}

bool ipv4_mapped(const GidBytes& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](auto byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

bool link_local(const GidBytes& gid) {
  if (ipv4_mapped(gid)) return gid[12] == 169 && gid[13] == 254;
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

std::string to_string(const GidBytes& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, int wanted) {
  if (wanted >= 0) {
    auto found = std::find_if(table.begin(), table.end(),
                              [&](const GidEntry& entry) { return entry.index == wanted; });
    return found == table.end() ? std::nullopt : std::optional(*found);
  }
  auto cost = [](const GidEntry& entry) {
    bool ethernet = entry.type != GidType::kInfiniBand;
    return std::tuple(-static_cast<int>(entry.type), ethernet && link_local(entry.gid),
                      ethernet && !ipv4_mapped(entry.gid), entry.index);
  };
  auto best = std::min_element(table.begin(), table.end(),
                               [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  return best == table.end() ? std::nullopt : std::optional(*best);
}

}  // namespace ferry::fabric::verbs
