#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ferry/bootstrap/socket.h"
#include "ferry/ps/scheduler/http_internal.h"

namespace ferry::ps {
namespace {

constexpr std::size_t kMostHead = 64 << 10;
constexpr std::size_t kMostBody = 64 << 20;
constexpr std::string_view kLineEnd = "\r\n";

bool same_word(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char a, char b) { return std::tolower(a) == std::tolower(b); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<std::size_t> length_in(std::string_view text, int base) {
  std::size_t length = 0;
  const auto [rest, problem] =
      std::from_chars(text.data(), text.data() + text.size(), length, base);
  if (problem != std::errc() || rest != text.data() + text.size() || length > kMostBody)
    return fail(Code::kDataLoss, "an answer of '{}' bytes", text);
  return length;
}

struct HttpHead {
  int status = 0;
  std::optional<std::size_t> length;
  bool chunked = false;
};

Result<HttpHead> parse_head(std::string_view head) {
  HttpHead found;
  const auto line = head.substr(0, head.find(kLineEnd));
  if (!line.starts_with("HTTP/1.") || line.size() < 12)
    return fail(Code::kDataLoss, "this is no answer of HTTP/1.1: '{}'", line.substr(0, 40));
  found.status = static_cast<int>(FERRY_TRY(length_in(line.substr(9, 3), 10)));
  for (auto rest = head; !rest.empty();) {
    const auto end = rest.find(kLineEnd);
    const auto field = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
    const auto colon = field.find(':');
    if (colon == std::string_view::npos) continue;
    const auto value = trimmed(field.substr(colon + 1));
    if (same_word(field.substr(0, colon), "content-length"))
      found.length = FERRY_TRY(length_in(value, 10));
    if (same_word(field.substr(0, colon), "transfer-encoding"))
      found.chunked = same_word(value, "chunked");
  }
  return found;
}

// The chunks together; nothing while the last one, which is empty, has not come.
Result<std::optional<std::string>> join_chunks(std::string_view text) {
  std::string all;
  for (;;) {
    const auto line = text.find(kLineEnd);
    if (line == std::string_view::npos) return std::optional<std::string>();
    const auto digits = text.substr(0, std::min(line, text.find(';')));
    const auto length = FERRY_TRY(length_in(trimmed(digits), 16));
    text.remove_prefix(line + 2);
    if (length == 0) return std::optional(std::move(all));
    if (text.size() < length + 2) return std::optional<std::string>();
    all += text.substr(0, length);
    text.remove_prefix(length + 2);
  }
}

// False: the peer has closed.
Result<bool> receive_some(int fd, std::string& text, Deadline deadline) {
  std::array<char, 16384> piece{};
  for (;;) {
    const auto got = recv(fd, piece.data(), piece.size(), 0);
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    if (got >= 0) return got > 0;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      return fail_errno(errno, "cannot receive an answer");
    if (deadline.expired()) return fail(Code::kDeadlineExceeded, "no answer in time");
    pollfd wait{fd, POLLIN, 0};
    (void)poll(&wait, 1, deadline.left_ms());
  }
}

}  // namespace

Result<std::optional<HttpAnswer>> parse_http(std::string_view text, bool ended) {
  const auto cut_off = [] { return fail(Code::kDataLoss, "an answer that was cut off"); };
  const auto end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (ended) return cut_off();
    if (text.size() > kMostHead) return fail(Code::kDataLoss, "an answer without an end");
    return std::optional<HttpAnswer>();
  }
  const auto head = FERRY_TRY(parse_head(text.substr(0, end)));
  const auto body = text.substr(end + 4);
  if (body.size() > 2 * kMostBody) return fail(Code::kDataLoss, "an answer without an end");
  std::optional<std::string> whole;
  if (head.chunked)
    whole = FERRY_TRY(join_chunks(body));
  else if (head.length ? body.size() >= *head.length : ended)
    whole = std::string(body.substr(0, head.length.value_or(body.size())));
  if (!whole && ended) return cut_off();
  if (!whole) return std::optional<HttpAnswer>();
  return HttpAnswer{head.status, *std::move(whole)};
}

Result<HttpAnswer> post_http(const bootstrap::Endpoint& endpoint, std::string_view path,
                             std::string_view body, Deadline deadline) {
  const auto socket = FERRY_TRY(bootstrap::connect_tcp(endpoint, deadline));
  const auto question = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      path, endpoint.to_string(), body.size(), body);
  FERRY_TRY(bootstrap::send_all(socket.get(), std::as_bytes(std::span(question)), deadline));
  std::string text;
  for (;;) {
    const bool more = FERRY_TRY(receive_some(socket.get(), text, deadline));
    auto answer = FERRY_TRY(parse_http(text, !more));
    if (answer) return *std::move(answer);
  }
}

}  // namespace ferry::ps
