#pragma once

#include <functional>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/hello.h"

namespace ferry::bootstrap {

struct Dialled {
  Fd socket;
  Joined joined;
};

// Connects to the endpoint and runs the handshake. A peer that is busy (it says so, or closes the
// connection, or does not get round to the handshake) is tried again, with pauses, until the
// deadline. A peer that refuses is not, and neither is an endpoint where nobody listens. `renew`
// changes the hello before each further try, for a hello that is good for one: the peer may have
// taken it, and its answer may have come too late.
using Renew = std::function<Status(Hello& mine)>;
Result<Dialled> dial(const Endpoint& endpoint, const Secret& secret, Hello mine, Deadline deadline,
                     const Renew& renew = {});

}  // namespace ferry::bootstrap
