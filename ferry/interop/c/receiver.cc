#include <variant>

#include "ferry/interop/c/edge_internal.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::interop {

namespace {

using AnyReceiver = std::variant<transfer::StaticReceiver, transfer::DynamicReceiver>;

struct ReceiverBox : EdgeBox {
  ReceiverBox(std::shared_ptr<ChannelBox> of, AnyReceiver opened, std::uint32_t slots_of_it)
      : EdgeBox(std::move(of)), receiver(std::move(opened)), slots(slots_of_it) {}
  AnyReceiver receiver;
  const std::uint32_t slots;
};

Result<AnyReceiver> open_receiver(ChannelBox& box, const tensor::Spec& spec,
                                  const ferry_receiver_options& given) {
  transfer::DynamicOptions options;
  if (given.slots != 0) options.slots = given.slots;
  options.spins = given.spins != 0;
  options.in_place = given.copies == 0;
  if (given.pad != 0) options.pad = given.pad;
  if (given.most_pad != 0) options.most_pad = given.most_pad;
  auto& device = box.device->device;
  if (given.protocol == FERRY_STATIC || given.protocol == 0)
    return FERRY_TRY(transfer::StaticReceiver::open(device, box.channel, spec, options));
  if (given.protocol == FERRY_DYNAMIC)
    return FERRY_TRY(transfer::DynamicReceiver::open(device, box.channel, spec, options));
  return fail(Code::kInvalidArgument, "protocol {} is neither static nor dynamic", given.protocol);
}

}  // namespace

}  // namespace ferry::interop

struct ferry_receiver : ferry::interop::OfProcess {
  explicit ferry_receiver(std::shared_ptr<ferry::interop::ReceiverBox> made)
      : box(std::move(made)) {}
  std::shared_ptr<ferry::interop::ReceiverBox> box;
};

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_receiver_open(ferry_channel* channel, const ferry_spec* spec,
                                 const ferry_receiver_options* options, ferry_receiver** receiver) {
  return guard(channel, {spec, receiver}, [&]() -> Status {
    const auto given = FERRY_TRY(options_of(options));
    const auto own = FERRY_TRY(spec_of(*spec));
    auto opened = FERRY_TRY(open_receiver(*channel->box, own, given));
    const auto slots = given.slots != 0 ? given.slots : transfer::ReceiverOptions().slots;
    *receiver =
        new ferry_receiver(std::make_shared<ReceiverBox>(channel->box, std::move(opened), slots));
    return {};
  });
}

void ferry_receiver_free(ferry_receiver* receiver) { free_handle(receiver); }

ferry_error* ferry_receiver_ticket(const ferry_receiver* receiver, ferry_ticket* ticket) {
  return guard(receiver, {ticket}, [&]() -> Status {
    *ticket = std::visit([](const auto& edge) { return ticket_to_c(edge.ticket()); },
                         receiver->box->receiver);
    return {};
  });
}

ferry_error* ferry_receiver_receive(ferry_receiver* receiver, int64_t timeout_ns, int mode,
                                    ferry_arrival** arrival) {
  return guard(receiver, {arrival}, [&]() -> Status {
    auto& box = *receiver->box;
    if (box.held.load(std::memory_order_relaxed) >= box.slots)
      return fail(Code::kResourceExhausted,
                  "all {} slots hold tensors that are still in use here, so the next one has no "
                  "place; let go of one, copy it, or open the receiver with more slots",
                  box.slots);
    auto came = FERRY_TRY(
        std::visit([&](auto& edge) { return edge.receive(deadline_of(timeout_ns), mode_of(mode)); },
                   box.receiver));
    *arrival = new ferry_arrival(receiver->box, std::move(came));
    return {};
  });
}

uint32_t ferry_receiver_held(const ferry_receiver* receiver) {
  return receiver == nullptr ? 0 : receiver->box->held.load(std::memory_order_relaxed);
}
uint32_t ferry_receiver_slots(const ferry_receiver* receiver) {
  return receiver == nullptr ? 0 : receiver->box->slots;
}

ferry_error* ferry_receiver_describe(ferry_receiver* receiver, ferry_text** text) {
  return guard(receiver, {text}, [&]() -> Status {
    auto json =
        std::visit([](auto& edge) { return stats_json(edge.stats()); }, receiver->box->receiver);
    *text = new ferry_text{json.dump()};
    return {};
  });
}

void ferry_arrival_tensor(const ferry_arrival* arrival, ferry_tensor* tensor) {
  if (arrival != nullptr && tensor != nullptr) *tensor = arrival->tensor;
}
uint64_t ferry_arrival_sequence(const ferry_arrival* arrival) {
  return arrival == nullptr ? 0 : arrival->sequence;
}
ferry_error* ferry_arrival_release(ferry_arrival* arrival) {
  return guard(arrival, {}, [&] { return arrival->let_go(); });
}
void ferry_arrival_free(ferry_arrival* arrival) { free_handle(arrival); }
