#include "ferry/bootstrap/endpoint.h"

#include <algorithm>
#include <charconv>

#include "ferry/bootstrap/printable_internal.h"

namespace ferry::bootstrap {
namespace {

constexpr std::size_t kMaxText = 300;  // a DNS name has at most 253 bytes
constexpr std::string_view kAdvice = "write host:port, for example 127.0.0.1:7000 or [::1]:7000";

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool all_of(std::string_view text, std::string_view also) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_alnum(c) || also.find(c) != also.npos; });
}

// As much of the input as an error message shows.
std::string shown(std::string_view text) { return printable(text, 80); }

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  unsigned port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.size() > 5 || error != std::errc() || end != text.data() + text.size() || port > 65535)
    return fail(Code::kInvalidArgument,
                "'{}' is not a port in the endpoint '{}'; ports are 0 to 65535", shown(text),
                shown(whole));
  return static_cast<std::uint16_t>(port);
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  auto colon = text.rfind(':');
  if (text.size() > kMaxText || colon == text.npos)
    return fail(Code::kInvalidArgument, "'{}' is not an endpoint; {}", shown(text), kAdvice);
  auto host = text.substr(0, colon);
  bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  bool v6 = host.find(':') != host.npos;
  if (v6 && !bracketed)
    return fail(Code::kInvalidArgument,
                "'{}' is ambiguous: put an IPv6 address into brackets, as in [::1]:7000",
                shown(text));
  bool well_formed = bracketed ? v6 && all_of(host, ":.%_-") : all_of(host, ".-_");
  if (host.empty() || !well_formed)
    return fail(Code::kInvalidArgument, "'{}' has no valid host; {}", shown(text), kAdvice);
  auto port = FERRY_TRY(parse_port(text.substr(colon + 1), text));
  return Endpoint{std::string(host), port};
}

std::string Endpoint::to_string() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

}  // namespace ferry::bootstrap
