#include <nlohmann/json.hpp>

#include "ferry/interop/c/boxes_internal.h"

namespace ferry::interop {

namespace {

const char* name_of_state(fabric::PeerState state) {
  switch (state) {
    case fabric::PeerState::kAnswers:
      return "answers";
    case fabric::PeerState::kSilent:
      return "silent";
    case fabric::PeerState::kLost:
      break;
  }
  return "lost";
}

nlohmann::json channel_description(const ChannelBox& box) {
  const auto all = box.channel.capabilities();
  return {{"provider", box.provider},
          {"why", box.channel.why()},
          {"peer", box.peer},
          {"peer_host", box.channel.peer_host()},
          {"state", name_of_state(box.channel.peer_state())},
          {"silent_seconds", static_cast<double>(box.channel.silent_for().count()) / 1e9},
          {"capabilities",
           {{"one_sided", all.one_sided},
            {"maps_peer", all.maps_peer},
            {"atomics", all.atomics},
            {"max_message", all.max_message}}}};
}

template <class Post>
ferry_error* post(ferry_channel* channel, std::initializer_list<const void*> needed,
                  int64_t timeout_ns, ferry_transfer** transfer, Post&& posted) {
  return guard(channel, needed, [&]() -> Status {
    FERRY_TRY(check_pointers({transfer}));
    fabric::OpOptions options{.deadline = deadline_or_none(timeout_ns)};
    *transfer = new ferry_transfer(channel->box, posted(channel->box->channel, std::move(options)));
    return {};
  });
}

}  // namespace

}  // namespace ferry::interop

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

void ferry_channel_free(ferry_channel* channel) { free_handle(channel); }

void ferry_channel_close(ferry_channel* channel) {
  ferry_error_free(guard(channel, {}, [&]() -> Status {
    channel->box->channel.close();
    return {};
  }));
}

const char* ferry_channel_provider(const ferry_channel* channel) {
  return channel == nullptr ? "" : channel->box->provider.c_str();
}
const char* ferry_channel_peer(const ferry_channel* channel) {
  return channel == nullptr ? "" : channel->box->peer.c_str();
}
int ferry_channel_alive(const ferry_channel* channel) {
  return channel != nullptr && channel->process == process_number() && channel->box->channel.alive()
             ? 1
             : 0;
}

ferry_error* ferry_channel_describe(ferry_channel* channel, ferry_text** text) {
  return guard(channel, {text}, [&]() -> Status {
    *text = new ferry_text{channel_description(*channel->box).dump()};
    return {};
  });
}

ferry_error* ferry_channel_write(ferry_channel* channel, const void* data, uint64_t bytes,
                                 const ferry_remote* remote, uint64_t offset, int64_t timeout_ns,
                                 ferry_transfer** transfer) {
  return post(channel, {remote}, timeout_ns, transfer, [&](auto& on, auto options) {
    return on.write(bytes_of(data, bytes), {remote_of(*remote), offset}, std::move(options));
  });
}

ferry_error* ferry_channel_read(ferry_channel* channel, void* data, uint64_t bytes,
                                const ferry_remote* remote, uint64_t offset, int64_t timeout_ns,
                                ferry_transfer** transfer) {
  return post(channel, {remote}, timeout_ns, transfer, [&](auto& on, auto options) {
    return on.read(bytes_of(data, bytes), {remote_of(*remote), offset}, std::move(options));
  });
}

ferry_error* ferry_channel_write_flagged(ferry_channel* channel, const void* data, uint64_t bytes,
                                         const ferry_remote* remote, uint64_t offset,
                                         const ferry_remote* flag, uint64_t flag_offset,
                                         uint64_t value, int64_t timeout_ns,
                                         ferry_transfer** transfer) {
  return post(channel, {remote, flag}, timeout_ns, transfer, [&](auto& on, auto options) {
    return on.write_flagged(bytes_of(data, bytes), {remote_of(*remote), offset},
                            {remote_of(*flag), flag_offset}, value, std::move(options));
  });
}

ferry_error* ferry_channel_fetch_add(ferry_channel* channel, const ferry_remote* word,
                                     uint64_t offset, uint64_t addend, int64_t timeout_ns,
                                     ferry_transfer** transfer) {
  return post(channel, {word}, timeout_ns, transfer, [&](auto& on, auto options) {
    return on.fetch_add({remote_of(*word), offset}, addend, std::move(options));
  });
}

ferry_error* ferry_channel_compare_swap(ferry_channel* channel, const ferry_remote* word,
                                        uint64_t offset, uint64_t expected, uint64_t desired,
                                        int64_t timeout_ns, ferry_transfer** transfer) {
  return post(channel, {word}, timeout_ns, transfer, [&](auto& on, auto options) {
    return on.compare_swap({remote_of(*word), offset}, expected, desired, std::move(options));
  });
}

ferry_error* ferry_channel_send(ferry_channel* channel, const void* data, uint64_t bytes,
                                int64_t timeout_ns, ferry_transfer** transfer) {
  return post(channel, {}, timeout_ns, transfer, [&](auto& on, auto options) {
    return on.send(bytes_of(data, bytes), std::move(options));
  });
}

ferry_error* ferry_channel_receive(ferry_channel* channel, void* into, uint64_t room,
                                   int64_t timeout_ns, uint64_t* bytes) {
  return guard(channel, {bytes}, [&]() -> Status {
    *bytes =
        FERRY_TRY(channel->box->channel.receive(bytes_of(into, room), deadline_of(timeout_ns)));
    return {};
  });
}

ferry_error* ferry_channel_look_up(ferry_channel* channel, const char* name, int64_t timeout_ns,
                                   ferry_remote* remote) {
  return guard(channel, {name, remote}, [&]() -> Status {
    *remote = remote_to_c(FERRY_TRY(channel->box->channel.look_up(name, deadline_of(timeout_ns))));
    return {};
  });
}

ferry_error* ferry_channel_map(ferry_channel* channel, const ferry_remote* remote, void** data,
                               uint64_t* bytes) {
  return guard(channel, {remote, data, bytes}, [&]() -> Status {
    const auto mapped = FERRY_TRY(channel->box->channel.map(remote_of(*remote)));
    *data = mapped.data();
    *bytes = mapped.size();
    return {};
  });
}

ferry_error* ferry_channel_wake_peer(ferry_channel* channel) {
  return guard(channel, {}, [&]() -> Status {
    channel->box->channel.wake_peer();
    return {};
  });
}

int ferry_transfer_ended(ferry_transfer* transfer) {
  if (transfer == nullptr || transfer->process != process_number()) return 1;
  return transfer->transfer.poll() ? 1 : 0;
}

ferry_error* ferry_transfer_wait(ferry_transfer* transfer, int64_t timeout_ns) {
  return guard(transfer, {}, [&]() -> Status {
    auto& own = transfer->transfer;
    if (!own.poll() && !transfer->channel->device->device.wait_until([&own] { return own.ended(); },
                                                                     deadline_of(timeout_ns)))
      return fail(Code::kDeadlineExceeded, "the operation to {} has not ended yet",
                  transfer->channel->peer);
    return own.wait();
  });
}

void ferry_transfer_cancel(ferry_transfer* transfer) {
  if (transfer != nullptr && transfer->process == process_number()) transfer->transfer.cancel();
}

uint64_t ferry_transfer_value(const ferry_transfer* transfer) {
  return transfer == nullptr ? 0 : transfer->transfer.value();
}

void ferry_transfer_free(ferry_transfer* transfer) {
  if (transfer == nullptr || transfer->process != process_number()) return;
  if (!transfer->transfer.poll()) {
    transfer->transfer.cancel();
    (void)transfer->transfer.wait();
  }
  delete transfer;
}
