#include <variant>

#include "ferry/interop/c/edge_internal.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::interop {

namespace {

using AnySender = std::variant<transfer::StaticSender, transfer::DynamicSender>;

struct SenderBox {
  SenderBox(std::shared_ptr<ChannelBox> of, AnySender opened)
      : channel(std::move(of)), sender(std::move(opened)) {}
  std::shared_ptr<ChannelBox> channel;
  AnySender sender;
};

Result<AnySender> open_sender(ChannelBox& box, const transfer::Ticket& ticket,
                              const transfer::SenderOptions& options) {
  auto& device = box.device->device;
  if (ticket.protocol == transfer::TransferProtocol::kStatic)
    return FERRY_TRY(
        transfer::StaticSender::open(device, box.channel, ticket, ticket.spec, options));
  if (ticket.protocol == transfer::TransferProtocol::kDynamic)
    return FERRY_TRY(
        transfer::DynamicSender::open(device, box.channel, ticket, ticket.spec, options));
  return fail(Code::kInvalidArgument, "the ticket is for a reader of a shared tensor");
}

Result<tensor::Tensor> output_of(AnySender& sender, const ferry_spec* spec) {
  if (auto* fixed = std::get_if<transfer::StaticSender>(&sender)) return fixed->output();
  if (spec == nullptr)
    return fail(Code::kInvalidArgument, "a dynamic sender needs the type and shape of each output");
  return std::get<transfer::DynamicSender>(sender).output(FERRY_TRY(spec_of(*spec)));
}

}  // namespace

}  // namespace ferry::interop

struct ferry_sender : ferry::interop::OfProcess {
  explicit ferry_sender(std::shared_ptr<ferry::interop::SenderBox> made) : box(std::move(made)) {}
  std::shared_ptr<ferry::interop::SenderBox> box;
};

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_sender_open(ferry_channel* channel, const ferry_ticket* ticket,
                               const ferry_sender_options* options, ferry_sender** sender) {
  return guard(channel, {ticket, sender}, [&]() -> Status {
    const auto given = FERRY_TRY(options_of(options));
    const auto wanted = FERRY_TRY(ticket_of(*ticket));
    auto opened =
        FERRY_TRY(open_sender(*channel->box, wanted, {.in_place = given.private_memory == 0}));
    *sender = new ferry_sender(std::make_shared<SenderBox>(channel->box, std::move(opened)));
    return {};
  });
}

void ferry_sender_free(ferry_sender* sender) { free_handle(sender); }

ferry_error* ferry_sender_output(ferry_sender* sender, const ferry_spec* spec, ferry_tensor* tensor,
                                 int* in_place) {
  return guard(sender, {tensor}, [&]() -> Status {
    auto& any = sender->box->sender;
    *tensor = tensor_to_c(FERRY_TRY(output_of(any, spec)));
    if (in_place != nullptr)
      *in_place = std::visit([](auto& edge) { return edge.output_in_place() ? 1 : 0; }, any);
    return {};
  });
}

ferry_error* ferry_sender_send(ferry_sender* sender, const ferry_tensor* tensor,
                               int64_t timeout_ns) {
  return guard(sender, {tensor}, [&]() -> Status {
    const auto plain = FERRY_TRY(tensor_of(*tensor));
    return std::visit([&](auto& edge) { return edge.send(plain, deadline_of(timeout_ns)); },
                      sender->box->sender);
  });
}

ferry_error* ferry_sender_start(ferry_sender* sender, const ferry_tensor* tensor, int* started) {
  return guard(sender, {tensor, started}, [&]() -> Status {
    const auto plain = FERRY_TRY(tensor_of(*tensor));
    *started =
        FERRY_TRY(std::visit([&](auto& edge) { return edge.start(plain); }, sender->box->sender))
            ? 1
            : 0;
    return {};
  });
}

ferry_error* ferry_sender_finished(ferry_sender* sender, int* finished) {
  return guard(sender, {finished}, [&]() -> Status {
    *finished =
        FERRY_TRY(std::visit([](auto& edge) { return edge.finished(); }, sender->box->sender)) ? 1
                                                                                               : 0;
    return {};
  });
}

ferry_error* ferry_sender_wait(ferry_sender* sender, int64_t timeout_ns) {
  return guard(sender, {}, [&]() -> Status {
    auto* box = sender->box.get();
    const auto ready = [box] {
      return std::visit([](auto& edge) { return edge.may_be_ready(); }, box->sender);
    };
    if (box->channel->device->device.wait_until(ready, deadline_of(timeout_ns))) return {};
    return fail(Code::kDeadlineExceeded,
                "the receiver at {} has no free slot; does it hold its "
                "tensors for long, or is it stopped?",
                box->channel->peer);
  });
}

ferry_error* ferry_sender_drain(ferry_sender* sender, int64_t timeout_ns) {
  return guard(sender, {}, [&] {
    return std::visit([&](auto& edge) { return edge.drain(deadline_of(timeout_ns)); },
                      sender->box->sender);
  });
}

ferry_error* ferry_sender_describe(ferry_sender* sender, ferry_text** text) {
  return guard(sender, {text}, [&]() -> Status {
    auto json =
        std::visit([](auto& edge) { return stats_json(edge.stats()); }, sender->box->sender);
    *text = new ferry_text{json.dump()};
    return {};
  });
}
