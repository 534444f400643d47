#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ferry::fabric::verbs {

using GidBytes = std::array<std::uint8_t, 16>;

// The numbers travel: docs/wire/verbs.md.
enum class GidType : std::uint8_t { kInfiniBand = 0, kRoce1 = 1, kRoce2 = 2 };
std::string_view name_of(GidType type);

struct GidEntry {
  int index = 0;
  GidType type = GidType::kInfiniBand;
  GidBytes gid{};
};

// fe80::/10 (and the all-zero interface of IPv4's 169.254/16): good on one link only.
bool link_local(const GidBytes& gid);
// An IPv4 address of RoCE v2: ::ffff:a.b.c.d.
bool ipv4_mapped(const GidBytes& gid);
std::string to_string(const GidBytes& gid);

// Which of a port's addresses to use. `wanted` -1: RoCE v2 before v1, routable before link-local,
// IPv4 before IPv6, the lowest index among equals; on InfiniBand the lowest index. Nothing when the
// table holds none, or not the one wanted.
std::optional<GidEntry> choose_gid(std::span<const GidEntry> table, int wanted);

}  // namespace ferry::fabric::verbs
