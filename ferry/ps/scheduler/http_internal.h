#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ferry/base/clock.h"
#include "ferry/bootstrap/endpoint.h"

namespace ferry::ps {

// As much of HTTP/1.1 as it takes to ask etcd: one question a connection, answers with a length, in
// chunks, or up to the end of the connection.

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// Nothing while there is more to come; `ended` if there is not. kDataLoss for what is no answer.
Result<std::optional<HttpAnswer>> parse_http(std::string_view text, bool ended);

Result<HttpAnswer> post_http(const bootstrap::Endpoint& endpoint, std::string_view path,
                             std::string_view body, Deadline deadline);

}  // namespace ferry::ps
