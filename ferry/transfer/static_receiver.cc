// Data path.
#include <vector>

#include "ferry/landing/landing.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::transfer {

struct StaticReceiver::Core final : Arrival::Owner {
  Core(landing::Landing places, const Ticket& made) : landing(std::move(places)), ticket(made) {}

  Status let_go(std::uint64_t sequence, std::uint64_t slot) override {
    return landing.acknowledge(static_cast<std::uint32_t>(slot), sequence);
  }

  landing::Landing landing;
  Ticket ticket;
  std::vector<tensor::Tensor> slots;
  std::uint64_t taken = 0;
};

Result<StaticReceiver> StaticReceiver::open(fabric::Device& device, fabric::Channel& channel,
                                            const tensor::Spec& spec, ReceiverOptions options) {
  const auto bytes = FERRY_TRY(spec.bytes());
  auto layout = FERRY_TRY(landing::Layout::of(options.slots, bytes));
  auto landing =
      FERRY_TRY(landing::Landing::open(device, channel, layout, landing::random_nonce()));
  const Ticket ticket{landing.address(device, options.spins), TransferProtocol::kStatic, 0, spec};
  auto core = std::make_unique<Core>(std::move(landing), ticket);
  for (std::uint32_t slot = 0; slot < layout.slots; ++slot)
    core->slots.push_back(FERRY_TRY(tensor::Tensor::over(spec, core->landing.body_of(slot))));
  return StaticReceiver(std::move(core));
}

StaticReceiver::StaticReceiver(std::unique_ptr<Core> core) : core_(std::move(core)) {}
StaticReceiver::StaticReceiver(StaticReceiver&&) noexcept = default;
StaticReceiver& StaticReceiver::operator=(StaticReceiver&&) noexcept = default;
StaticReceiver::~StaticReceiver() = default;

const Ticket& StaticReceiver::ticket() const { return core_->ticket; }

Result<bool> StaticReceiver::ready() { return core_->landing.arrived(); }

bool StaticReceiver::may_be_ready() const { return core_->landing.may_be_ready(); }

Result<Arrival> StaticReceiver::receive(Deadline deadline, fabric::WaitMode mode) {
  auto& landing = core_->landing;
  FERRY_TRY(landing.wait(deadline, mode));
  auto slot = landing.slot();
  auto sequence = FERRY_TRY(landing.take());
  ++core_->taken;
  return Arrival(core_.get(), sequence, slot, &core_->slots[slot]);
}

EdgeStats StaticReceiver::stats() const {
  return {.tensors = core_->taken, .in_place = core_->taken};
}

}  // namespace ferry::transfer
