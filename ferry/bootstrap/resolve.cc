#include <netdb.h>

#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "ferry/bootstrap/resolve_internal.h"

namespace ferry::bootstrap {
namespace {

struct Lookup {
  int status = EAI_AGAIN;  // of getaddrinfo
  int os_error = 0;        // when status is EAI_SYSTEM
  std::vector<Address> found;
};

Lookup look_up(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Lookup lookup;
  lookup.status =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  lookup.os_error = errno;
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  for (auto* each = list; each != nullptr; each = each->ai_next) {
    Address address;
    if (each->ai_addrlen > sizeof(address.storage)) continue;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.length = each->ai_addrlen;
    lookup.found.push_back(address);
  }
  return lookup;
}

Result<Lookup> look_up_name(const Endpoint& endpoint, Deadline deadline) {
  std::packaged_task<Lookup()> task([endpoint] { return look_up(endpoint, 0); });
  auto answer = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    return fail(Code::kResourceExhausted, "cannot start a thread to look up '{}': {}",
                endpoint.host, error.what());
  }
  if (answer.wait_for(deadline.left()) != std::future_status::ready)
    return fail(Code::kDeadlineExceeded,
                "looking up the host '{}' took too long; is the name server reachable?",
                endpoint.host);
  return answer.get();
}

}  // namespace

Endpoint Address::endpoint() const {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "0";
  ::getnameinfo(raw(), length, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10))};
}

Result<std::vector<Address>> resolve(const Endpoint& endpoint, Deadline deadline) {
  if (endpoint.host.empty())
    return fail(Code::kInvalidArgument,
                "no host in the endpoint ':{}'; name one, for example 127.0.0.1", endpoint.port);
  auto lookup = look_up(endpoint, AI_NUMERICHOST);
  if (lookup.status != 0) lookup = FERRY_TRY(look_up_name(endpoint, deadline));
  if (lookup.status == EAI_SYSTEM)
    return fail_errno(lookup.os_error, "cannot look up the host '{}'", endpoint.host);
  if (lookup.status != 0 || lookup.found.empty())
    return fail(Code::kNotFound,
                "the host '{}' is not known here ({}); check the spelling or "
                "/etc/hosts",
                endpoint.host, ::gai_strerror(lookup.status));
  return std::move(lookup.found);
}

}  // namespace ferry::bootstrap
