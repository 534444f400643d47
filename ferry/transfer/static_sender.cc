// Data path.
#include "ferry/transfer/launch_internal.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::transfer {

struct StaticSender::Core {
  Core(fabric::Device& from, Launch to, const tensor::Spec& what, SenderOptions how)
      : device(from), launch(std::move(to)), spec(what), options(how) {}

  bool may_map() const { return options.in_place && !launch.body().empty(); }
  // Registered memory with room for the flag behind the payload.
  Result<std::span<std::byte>> staging() {
    auto bytes = launch.layout().flag() + sizeof(std::uint64_t);
    if (!staged) staged = FERRY_TRY(device.allocate(bytes, fabric::Rights::kReadWrite));
    return staged.bytes().first(bytes);
  }
  Status wait_free(Deadline deadline) {
    if (FERRY_TRY(launch.free())) return {};
    return launch.wait_free(deadline, options.mode);
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
  Launch launch;
  const tensor::Spec spec;
  const SenderOptions options;
  fabric::Region staged;
  std::byte* given = nullptr;  // what output() gave
  bool broken = false;
  EdgeStats stats;
};

Result<StaticSender> StaticSender::open(fabric::Device& device, fabric::Channel& channel,
                                        const Ticket& ticket, const tensor::Spec& spec,
                                        SenderOptions options) {
  if (ticket.protocol != Protocol::kStatic || !(ticket.spec == spec))
    return fail(Code::kInvalidArgument, "the ticket is for {} {}, and {} is to be sent",
                ticket.protocol == Protocol::kStatic ? "tensors of" : "another protocol and",
                ticket.spec.to_string(), spec.to_string());
  auto launch = FERRY_TRY(Launch::open(device, channel, ticket));
  return StaticSender(std::make_unique<Core>(device, std::move(launch), spec, options));
}

StaticSender::StaticSender(std::unique_ptr<Core> core) : core_(std::move(core)) {}
StaticSender::StaticSender(StaticSender&&) noexcept = default;
StaticSender& StaticSender::operator=(StaticSender&&) noexcept = default;
StaticSender::~StaticSender() = default;

Result<tensor::Tensor> StaticSender::output() {
  auto bytes = core_->launch.body();
  bool in_place = core_->may_map() && FERRY_TRY(core_->launch.free());
  if (!in_place) bytes = FERRY_TRY(core_->staging()).first(core_->launch.layout().body);
  // Once given it stays the same, also if the slot is let go of meanwhile.
  if (core_->given != nullptr && core_->given != bytes.data()) bytes = {core_->given, bytes.size()};
  core_->given = bytes.data();
  return tensor::Tensor::over(core_->spec, bytes);
}

bool StaticSender::output_in_place() const {
  return core_->given != nullptr && core_->given == core_->launch.body().data();
}

Result<bool> StaticSender::ready() { return core_->launch.free(); }

Status StaticSender::send(const tensor::Tensor& tensor, Deadline deadline) {
  if (core_->broken)
    return fail(Code::kFailedPrecondition,
                "an earlier send on this edge failed; open it anew with a new ticket");
  if (!(tensor.spec() == core_->spec))
    return fail(Code::kInvalidArgument, "the edge carries {}, not {}", core_->spec.to_string(),
                tensor.spec().to_string());
  auto& launch = core_->launch;
  bool in_place = tensor.data() == launch.body().data() && core_->given == tensor.data();
  if (!in_place) FERRY_TRY(core_->wait_free(deadline));
  auto sent =
      in_place ? launch.publish() : core_->write(tensor, deadline).wait(core_->options.mode);
  core_->given = nullptr;
  core_->broken = !sent;
  FERRY_TRY(std::move(sent));
  ++core_->stats.tensors;
  core_->stats.in_place += in_place ? 1 : 0;
  return {};
}

Status StaticSender::drain(Deadline deadline) {
  return core_->launch.wait_all(deadline, core_->options.mode);
}

EdgeStats StaticSender::stats() const { return core_->stats; }

}  // namespace ferry::transfer
