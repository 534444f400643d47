#include <fcntl.h>
#include <sys/epoll.h>

#include "ferry/base/log.h"
#include "ferry/fabric/verbs/events_internal.h"

namespace ferry::fabric::verbs {

Result<std::unique_ptr<Events>> Events::open(Shared& shared, Loop& loop, Fail fail) {
  int fd = shared.adapter->context->async_fd;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return fail_errno(errno, "making the events of {} non-blocking", shared.adapter->name);
  std::unique_ptr<Events> events(new Events(shared, loop, std::move(fail)));
  loop.add(events.get());
  FERRY_TRY(loop.watch(fd, EPOLLIN, events.get(), 0));
  return events;
}

Events::~Events() {
  loop_.unwatch(shared_.adapter->context->async_fd);
  loop_.remove(this);
}

void Events::ready_on_loop(std::uint64_t, std::uint32_t) {
  ibv_async_event event{};
  while (ibv_get_async_event(shared_.adapter->context.get(), &event) == 0) {
    handle(event);
    ibv_ack_async_event(&event);
  }
}

void Events::handle(const ibv_async_event& event) {
  const auto& name = shared_.adapter->name;
  const char* text = ibv_event_type_str(event.event_type);
  auto cause = [&] {
    return Error(Code::kUnavailable, fmt::format("{} reports: {}", name, text), event.event_type,
                 __FILE__, __LINE__);
  };
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return failure_(event.element.qp->qp_num, cause());
    case IBV_EVENT_PORT_ERR:
      if (event.element.port_num != shared_.adapter->port) return;
      logger().warn("verbs: port {} of {} went down", event.element.port_num, name);
      return down_since_.store(now_ns());
    case IBV_EVENT_PORT_ACTIVE:
      if (event.element.port_num == shared_.adapter->port) down_since_.store(0);
      return;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
      dead_.store(true);
      logger().error("verbs: {}", cause().to_string());
      return failure_(std::nullopt, cause());
    default:
      logger().debug("verbs: {}", cause().to_string());
  }
}

Error Events::port_error() const {
  return Error(Code::kUnavailable,
               fmt::format("port {} of {} is down; check the cable or the network interface",
                           shared_.adapter->port, shared_.adapter->name),
               0, __FILE__, __LINE__);
}

void Events::tick_on_loop(std::int64_t now) {
  // A link that comes back at once costs nothing: the device sends again by itself.
  auto since = down_since_.load();
  if (since != 0 && now - since > shared_.patient(std::chrono::seconds(1)).count())
    failure_(std::nullopt, port_error());
}

Status Events::health() const {
  if (dead_.load())
    return fail(Code::kUnavailable, "{} has failed; open the device anew", shared_.adapter->name);
  if (down_since_.load() != 0) return tl::unexpected(port_error());
  return {};
}

}  // namespace ferry::fabric::verbs
