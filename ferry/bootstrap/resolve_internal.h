#pragma once

#include <sys/socket.h>

#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/bootstrap/endpoint.h"

namespace ferry::bootstrap {

// A socket address in numbers.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  Endpoint endpoint() const;
};

// All addresses of the endpoint, at least one. Numeric hosts are answered at once. Names are looked
// up on a thread of their own, since the C library's look-up knows no deadline; one that is given
// up on ends by itself later and touches nothing of the caller's.
Result<std::vector<Address>> resolve(const Endpoint& endpoint, Deadline deadline);

}  // namespace ferry::bootstrap
