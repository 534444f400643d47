#include "ferry/interop/c/mailbox.h"

#include <nlohmann/json.hpp>

#include "ferry/interop/c/boxes_internal.h"

namespace ferry::interop {

namespace {

struct MailboxBox {
  MailboxBox(std::shared_ptr<ChannelBox> of, mail::Mailbox opened)
      : channel(std::move(of)), mailbox(std::move(opened)) {}
  std::shared_ptr<ChannelBox> channel;
  mail::Mailbox mailbox;

  // Makes progress until it may be that this is so. False: the time is over.
  template <class Condition>
  bool wait(Condition condition, Deadline deadline) {
    return channel->device->device.wait_until(condition, deadline);
  }
};

Result<mail::MailRoom*> room_of(DeviceBox& box, int32_t tuning) {
  const std::lock_guard guard(box.lock);
  if (!box.room) {
    mail::MailRoomOptions options;
    if (tuning == 1) options.tuning = mail::TuningUse::kCached;
    if (tuning == 2) options.tuning = mail::TuningUse::kOff;
    box.room.emplace(FERRY_TRY(mail::MailRoom::open(box.device, std::move(options))));
  }
  return &*box.room;
}

mail::MailboxOptions mailbox_options(const ferry_mailbox_options& given) {
  mail::MailboxOptions options;
  if (given.slots != 0) options.slots = given.slots;
  if (given.slot_bytes != 0) options.slot_bytes = given.slot_bytes;
  if (given.eager_threshold != 0) options.eager_threshold = given.eager_threshold;
  if (given.most_bytes != 0) options.most_bytes = given.most_bytes;
  if (given.send_bytes != 0) options.send_bytes = given.send_bytes;
  return options;
}

nlohmann::json mailbox_description(const mail::Mailbox& mailbox) {
  const auto stats = mailbox.stats();
  const auto tuning = mailbox.tuning();
  return {{"stats",
           {{"sent", stats.sent},
            {"received", stats.received},
            {"in_place", stats.in_place},
            {"announced", stats.announced},
            {"copies", stats.copies},
            {"reads", stats.reads}}},
          {"tuning",
           {{"source", mail::name_of(mailbox.tuning_source())},
            {"eager_threshold", tuning.eager_threshold},
            {"chunk_bytes", tuning.chunk_bytes},
            {"chunks_in_flight", tuning.chunks_in_flight},
            {"spin_us", static_cast<double>(tuning.spin.count()) / 1e3}}}};
}

}  // namespace

}  // namespace ferry::interop

struct ferry_mailbox : ferry::interop::OfProcess {
  explicit ferry_mailbox(std::shared_ptr<ferry::interop::MailboxBox> made) : box(std::move(made)) {}
  std::shared_ptr<ferry::interop::MailboxBox> box;
};
struct ferry_message : ferry::interop::OfProcess {
  ferry_message(std::shared_ptr<ferry::interop::MailboxBox> from, ferry::mail::Message came)
      : box(std::move(from)), message(std::move(came)) {}
  std::shared_ptr<ferry::interop::MailboxBox> box;
  ferry::mail::Message message;
};
struct ferry_sending : ferry::interop::OfProcess {
  ferry_sending(std::shared_ptr<ferry::interop::MailboxBox> by, ferry::mail::Sending begun)
      : box(std::move(by)), sending(std::move(begun)) {}
  std::shared_ptr<ferry::interop::MailboxBox> box;
  ferry::mail::Sending sending;
};

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_mailbox_open(ferry_channel* channel, const ferry_mailbox_options* options,
                                int64_t timeout_ns, ferry_mailbox** mailbox) {
  return guard(channel, {mailbox}, [&]() -> Status {
    const auto given = FERRY_TRY(options_of(options));
    auto& box = *channel->box;
    auto* room = FERRY_TRY(room_of(*box.device, given.tuning));
    auto opened = FERRY_TRY(mail::Mailbox::open(*room, box.device->device, box.channel,
                                                mailbox_options(given), deadline_of(timeout_ns)));
    *mailbox = new ferry_mailbox(std::make_shared<MailboxBox>(channel->box, std::move(opened)));
    return {};
  });
}

void ferry_mailbox_free(ferry_mailbox* mailbox) { free_handle(mailbox); }

ferry_error* ferry_mailbox_send(ferry_mailbox* mailbox, const ferry_part* parts, size_t count,
                                int64_t timeout_ns, ferry_sending** sending) {
  return guard(mailbox, {sending}, [&]() -> Status {
    if (count != 0) FERRY_TRY(check_pointers({parts}));
    std::vector<std::span<const std::byte>> spans(count);
    for (size_t i = 0; i < count; ++i) spans[i] = bytes_of(parts[i].data, parts[i].bytes);
    *sending =
        new ferry_sending(mailbox->box, mailbox->box->mailbox.send(spans, deadline_of(timeout_ns)));
    return {};
  });
}

ferry_error* ferry_sending_wait(ferry_sending* sending, int64_t timeout_ns) {
  return guard(sending, {}, [&]() -> Status {
    auto* box = sending->box.get();
    const auto deadline = deadline_of(timeout_ns);
    while (!sending->sending.poll()) {
      if (!box->wait([box] { return box->mailbox.may_be_ready(false); }, deadline))
        return fail(Code::kDeadlineExceeded, "the message to {} is still on its way",
                    box->channel->peer);
    }
    return sending->sending.wait();
  });
}

int ferry_sending_ended(ferry_sending* sending) {
  if (sending == nullptr || sending->process != process_number()) return 1;
  return sending->sending.poll() ? 1 : 0;
}

void ferry_sending_free(ferry_sending* sending) {
  if (sending == nullptr || sending->process != process_number()) return;
  (void)sending->sending.wait();
  delete sending;
}

ferry_error* ferry_mailbox_drain(ferry_mailbox* mailbox, int64_t timeout_ns) {
  return guard(mailbox, {}, [&] { return mailbox->box->mailbox.drain(deadline_of(timeout_ns)); });
}

ferry_error* ferry_mailbox_receive(ferry_mailbox* mailbox, int64_t timeout_ns,
                                   ferry_message** message) {
  return guard(mailbox, {message}, [&]() -> Status {
    auto came = FERRY_TRY(mailbox->box->mailbox.receive(deadline_of(timeout_ns)));
    *message = new ferry_message(mailbox->box, std::move(came));
    return {};
  });
}

size_t ferry_message_parts(const ferry_message* message) {
  return message == nullptr ? 0 : message->message.parts().size();
}

ferry_part ferry_message_part(const ferry_message* message, size_t index) {
  if (index >= ferry_message_parts(message)) return {nullptr, 0};
  const auto part = message->message.parts()[index];
  return {part.data(), part.size()};
}

void ferry_message_free(ferry_message* message) { free_handle(message); }

ferry_error* ferry_mailbox_describe(ferry_mailbox* mailbox, ferry_text** text) {
  return guard(mailbox, {text}, [&]() -> Status {
    *text = new ferry_text{mailbox_description(mailbox->box->mailbox).dump()};
    return {};
  });
}
