// Data path.
#include <vector>

#include "ferry/landing/launch.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::transfer {

struct StaticSender::Core {
  Core(fabric::Device& from, landing::Launch to, const tensor::Spec& what, SenderOptions how)
      : device(from), launch(std::move(to)), spec(what), options(how) {}

  // The receiver's slots as tensors.
  Status map_slots() {
    for (std::uint32_t slot = 0; slot < launch.layout().slots; ++slot)
      slots.push_back(FERRY_TRY(tensor::Tensor::over(spec, launch.body_of(slot))));
    return {};
  }
  // Registered memory with room for the flag behind the payload.
  Status stage() {
    auto bytes = launch.layout().flag() + sizeof(std::uint64_t);
    staged = FERRY_TRY(device.allocate(bytes, fabric::Rights::kReadWrite));
    in_staging = FERRY_TRY(tensor::Tensor::over(spec, staged.bytes().first(launch.layout().body)));
    return {};
  }
  Status check(const tensor::Tensor& tensor, bool own) const {
    if (broken)
      return fail(Code::kFailedPrecondition,
                  "an earlier send on this edge failed; open it anew with a new ticket");
    if (!own && !(tensor.spec() == spec))
      return fail(Code::kInvalidArgument, "the edge carries {}, not {}", spec.to_string(),
                  tensor.spec().to_string());
    return {};
  }
  Status wait_free(Deadline deadline) {
    if (FERRY_TRY(launch.free())) return {};
    return launch.wait_free(deadline);
  }
  // No slot is free: is there still somebody who could let go of one?
  Status check_receiver() const {
    if (launch.channel().alive()) return {};
    auto waited = launch.wait_free({});
    if (!waited && waited.error().code() == Code::kDeadlineExceeded) return {};
    return waited;
  }
  bool is_given(const tensor::Tensor& tensor) const {
    return given != nullptr && tensor.bytes().data() == given->bytes().data() &&
           tensor.bytes().size() == given->bytes().size();
  }
  void settle() { (void)flight.wait(options.mode); }
  void count(bool in_place, bool registered) {
    given = nullptr;
    ++stats.tensors;
    stats.in_place += in_place ? 1 : 0;
    stats.registered += registered ? 1 : 0;
  }
  fabric::Transfer write(const tensor::Tensor& tensor, Deadline deadline) {
    ++stats.writes;
    bool mine = staged && tensor.data() == staged.data() && launch.layout().body % 8 == 0;
    if (mine)
      return launch.write_to_end(staged.bytes().first(tensor.bytes().size() + 8),
                                 {.deadline = deadline});
    return launch.write(tensor.bytes(), 0, {.deadline = deadline});
  }

  fabric::Device& device;
  landing::Launch launch;
  const tensor::Spec spec;
  const SenderOptions options;
  std::vector<tensor::Tensor> slots;  // where the path maps them, and that is wanted
  fabric::Region staged;
  tensor::Tensor in_staging;
  const tensor::Tensor* given = nullptr;  // what output() gave
  fabric::Transfer flight;                // of what start() has begun
  bool under_way = false;
  bool broken = false;
  EdgeStats stats;
};

Result<StaticSender> StaticSender::open(fabric::Device& device, fabric::Channel& channel,
                                        const Ticket& ticket, const tensor::Spec& spec,
                                        SenderOptions options) {
  if (ticket.protocol != TransferProtocol::kStatic || !(ticket.spec == spec))
    return fail(
        Code::kInvalidArgument, "the ticket is for {} {}, and {} is to be sent",
        ticket.protocol == TransferProtocol::kStatic ? "tensors of" : "another protocol and",
        ticket.spec.to_string(), spec.to_string());
  auto launch = FERRY_TRY(landing::Launch::open(device, channel, ticket, options.mode));
  auto core = std::make_unique<Core>(device, std::move(launch), spec, options);
  if (options.in_place && core->launch.maps()) FERRY_TRY(core->map_slots());
  return StaticSender(std::move(core));
}

StaticSender::StaticSender(std::unique_ptr<Core> core) : core_(std::move(core)) {}
StaticSender::StaticSender(StaticSender&&) noexcept = default;
StaticSender& StaticSender::operator=(StaticSender&&) noexcept = default;
StaticSender::~StaticSender() {
  if (core_ != nullptr && core_->under_way) core_->settle();
}

// Once given it stays the same until it is sent, also if the slot is let go of meanwhile.
Result<tensor::Tensor> StaticSender::output() {
  auto& core = *core_;
  if (core.given != nullptr) return *core.given;
  auto& launch = core.launch;
  if (!core.slots.empty() && FERRY_TRY(launch.free())) {
    core.given = &core.slots[launch.slot()];
    return *core.given;
  }
  if (!core.staged) FERRY_TRY(core.stage());
  core.given = &core.in_staging;
  return *core.given;
}

bool StaticSender::output_in_place() const {
  return core_->given != nullptr && core_->given != &core_->in_staging;
}

Result<bool> StaticSender::ready() { return core_->launch.free(); }

Status StaticSender::send(const tensor::Tensor& tensor, Deadline deadline) {
  auto& core = *core_;
  bool own = core.is_given(tensor);
  FERRY_TRY(core.check(tensor, own));
  bool in_place = own && core.given != &core.in_staging;
  if (!in_place) FERRY_TRY(core.wait_free(deadline));
  auto sent = in_place ? core.launch.publish()
                       : core.launch.outcome(core.write(tensor, deadline).wait(core.options.mode));
  core.count(in_place, own || core.device.is_registered(tensor.bytes()));
  core.broken = !sent;
  return sent;
}

Result<bool> StaticSender::start(const tensor::Tensor& tensor) {
  auto& core = *core_;
  bool own = core.is_given(tensor);
  FERRY_TRY(core.check(tensor, own));
  bool in_place = own && core.given != &core.in_staging;
  if (!in_place && !FERRY_TRY(core.launch.free())) {
    FERRY_TRY(core.check_receiver());
    return false;
  }
  auto sent = in_place ? core.launch.publish() : Status();
  if (!in_place) core.flight = core.write(tensor, {});
  core.count(in_place, own || core.device.is_registered(tensor.bytes()));
  core.under_way = true;
  core.broken = !sent;
  FERRY_TRY(std::move(sent));
  return true;
}

Result<bool> StaticSender::finished() {
  if (!core_->flight.poll()) return false;
  auto sent = core_->launch.outcome(std::exchange(core_->flight, {}).wait(core_->options.mode));
  core_->under_way = false;
  core_->broken = !sent;
  FERRY_TRY(std::move(sent));
  return true;
}

bool StaticSender::may_be_ready() const {
  return core_->under_way ? core_->flight.ended() : core_->launch.may_be_ready();
}

Status StaticSender::drain(Deadline deadline) { return core_->launch.wait_all(deadline); }

EdgeStats StaticSender::stats() const { return core_->stats; }

}  // namespace ferry::transfer
