// Data path.
#include <cstring>
#include <vector>

#include "ferry/landing/buffer_pool.h"
#include "ferry/landing/launch.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/metadata_internal.h"

namespace ferry::transfer {

namespace {
// Up to here a tensor in foreign memory is copied behind its metadata, to go in one write.
constexpr std::uint64_t kCopyUpTo = 16 * 1024;

constexpr std::uint64_t kTail = Metadata::kBytes + sizeof(std::uint64_t);
}  // namespace

struct DynamicSender::Core {
  Core(fabric::Device& from_device, fabric::Channel& channel, landing::Launch to,
       const Ticket& from, SenderOptions how)
      : device(from_device),
        launch(std::move(to)),
        ticket(from),
        options(how),
        pool(device, &channel),
        held(launch.layout().slots) {}

  using Buffer = landing::BufferPool::Buffer;

  std::uint64_t pad() const { return launch.layout().body - Metadata::kBytes; }
  bool fits(std::uint64_t bytes) const { return align_up(bytes, 64) <= pad(); }
  // Where a payload of so many bytes is in the mapped pad.
  std::span<std::byte> in_pad(std::uint64_t bytes) const {
    return launch.body().subspan(pad() - align_up(bytes, 64), bytes);
  }
  Result<Buffer> take_buffer(std::uint64_t bytes) {
    reclaim();
    return pool.take(align_up(bytes, 64) + kTail);
  }
  // Buffers whose tensors were let go of.
  void reclaim() {
    auto next = launch.next();
    auto slots = launch.layout().slots;
    for (auto sequence = next > slots ? next - slots : 1; sequence < next; ++sequence) {
      auto& buffer = held[launch.layout().slot_of(sequence)];
      if (buffer && launch.acknowledged(sequence)) pool.give(std::exchange(buffer, {})->index);
    }
  }

  std::uint64_t offers_made() const {
    return __atomic_load_n(
        reinterpret_cast<const std::uint64_t*>(launch.offer().data() + landing::Layout::kHelloFlag),
        __ATOMIC_ACQUIRE);
  }
  // The landing that the receiver has offered. Nothing: it cannot be reached, and is not used.
  Result<std::optional<landing::Launch::Aim>> look_at_offer() {
    auto line = launch.offer();
    Offer::Wire bytes;
    std::memcpy(bytes.data(), line.data(), bytes.size());
    auto offer = Offer::from_wire(bytes);
    auto layout = offer ? landing::Layout::of(ticket.slots, offer->body)
                        : Result<landing::Layout>(landing::Layout{});
    if (offers_made() != offers + 1 || !offer || !layout || offer->body % 64 != 0 ||
        offer->body < launch.layout().body || layout->bytes() > offer->region.length)
      return fail(Code::kDataLoss, "the receiver at {} makes an offer that cannot be",
                  launch.channel().peer_endpoint());
    ++offers;
    auto there = ticket;
    there.body = offer->body;
    there.region = offer->region;
    auto aim = launch.aim_at(there);
    return aim ? std::optional(*aim) : std::nullopt;
  }

  // Whether the slot of the next tensor is free.
  Result<bool> prepare() {
    if (!FERRY_TRY(launch.free())) return false;
    let_go_of_slot();
    return true;
  }
  // Whoever had the next tensor's slot, which is free, was let go of.
  void let_go_of_slot() {
    if (auto& buffer = held[launch.slot()]) pool.give(std::exchange(buffer, {})->index);
  }

  Metadata metadata_of(const tensor::Tensor& tensor) const {
    Metadata metadata;
    metadata.spec = tensor.spec();
    metadata.bytes = tensor.bytes().size();
    metadata.moves = next.has_value();
    return metadata;
  }

  // What output() gave in the pad, or a part of it: where a payload lies depends on its size.
  Status publish_in_place(const tensor::Tensor& tensor) {
    auto bytes = tensor.bytes();
    if (auto place = in_pad(bytes.size()); place.data() != bytes.data() && !bytes.empty())
      std::memmove(place.data(), bytes.data(), bytes.size());
    wire = metadata_of(tensor).to_wire();
    std::memcpy(launch.body().data() + pad(), wire.data(), wire.size());
    ++stats.in_place;
    ++stats.registered;
    return launch.publish();
  }

  // Payload, metadata and flag are next to each other in the buffer as in the slot: one write.
  void begin_together(const Buffer& buffer, const Metadata& metadata, Deadline deadline) {
    auto padded = align_up(metadata.bytes, 64);
    wire = metadata.to_wire();
    std::memcpy(buffer.bytes.data() + padded, wire.data(), wire.size());
    ++stats.writes;
    written = launch.write_to_end(buffer.bytes.first(padded + kTail), {.deadline = deadline});
    writing = buffer;
  }

  // The receiver reads it, or uses it where it is: the buffer is busy until it says so.
  void begin_for_reading(const Buffer& buffer, Metadata metadata, Deadline deadline) {
    metadata.where = Metadata::Where::kSender;
    metadata.region = buffer.remote;
    wire = metadata.to_wire();
    held[launch.slot()] = buffer;
    ++stats.writes;
    written = launch.write(wire, pad(), {.deadline = deadline});
  }

  // From foreign memory straight into the pad, then the metadata.
  void begin_apart(const tensor::Tensor& tensor, Deadline deadline) {
    auto metadata = metadata_of(tensor);
    wire = metadata.to_wire();
    ahead = launch.write_ahead(tensor.bytes(), pad() - align_up(metadata.bytes, 64),
                               {.deadline = deadline});
    stats.writes += 2;
    stats.registered += device.is_registered(tensor.bytes()) ? 1 : 0;
    written = launch.write(wire, pad(), {.deadline = deadline});
  }

  Status begin_foreign(const tensor::Tensor& tensor, Deadline deadline) {
    auto bytes = tensor.bytes();
    if (fits(bytes.size()) && bytes.size() > kCopyUpTo) {
      begin_apart(tensor, deadline);
      return {};
    }
    auto buffer = FERRY_TRY(take_buffer(bytes.size()));
    if (!bytes.empty()) std::memcpy(buffer.bytes.data(), bytes.data(), bytes.size());
    ++stats.copies;
    begin_buffer(buffer, tensor, deadline);
    return {};
  }

  void begin_buffer(const Buffer& buffer, const tensor::Tensor& tensor, Deadline deadline) {
    auto metadata = metadata_of(tensor);
    if (fits(metadata.bytes)) {
      begin_together(buffer, metadata, deadline);
    } else {
      begin_for_reading(buffer, metadata, deadline);
    }
  }

  // The tensor is on its way, or was refused. There is a slot for it, unless it is in it already.
  Status begin(const tensor::Tensor& tensor, Deadline deadline) {
    if (offers_made() != offers) next = FERRY_TRY(look_at_offer());
    bool in_place = is_in_pad(tensor);
    given_pad = {};
    Status begun;
    if (in_place) {
      begun = publish_in_place(tensor);
    } else if (is_given(tensor)) {
      ++stats.registered;
      begin_buffer(*std::exchange(given, {}), tensor, deadline);
    } else {
      begun = begin_foreign(tensor, deadline);
    }
    // The tensor says so, so that the receiver knows where the one after it comes to.
    if (next) {
      launch.redirect_to(*next);
      next.reset();
    }
    broken = !begun;
    return begun;
  }
  bool ended() { return written.poll() && ahead.poll(); }
  Status end() {
    auto sent = std::exchange(written, {}).wait(options.mode);
    auto arrived = std::exchange(ahead, {}).wait(options.mode);
    if (writing) pool.give(std::exchange(writing, {})->index);
    broken = !sent || !arrived;
    FERRY_TRY(launch.outcome(std::move(arrived)));
    FERRY_TRY(launch.outcome(std::move(sent)));
    ++stats.tensors;
    return {};
  }

  void settle() { (void)end(); }
  Status check(const tensor::Tensor& tensor) const {
    if (broken)
      return fail(Code::kFailedPrecondition,
                  "an earlier send on this edge failed; open it anew with a new ticket");
    if (!ticket.spec.admits(tensor.spec()))
      return fail(Code::kInvalidArgument, "the edge carries {}, not {}", ticket.spec.to_string(),
                  tensor.spec().to_string());
    return {};
  }
  bool is_in_pad(const tensor::Tensor& tensor) const {
    return given_pad.data() != nullptr && tensor.data() >= given_pad.data() &&
           tensor.data() + tensor.bytes().size() <= given_pad.data() + given_pad.size();
  }
  // No slot is free: is there still somebody who could let go of one?
  Status check_receiver() const {
    if (launch.channel().alive()) return {};
    auto waited = launch.wait_free({});
    if (!waited && waited.error().code() == Code::kDeadlineExceeded) return {};
    return waited;
  }
  bool is_given(const tensor::Tensor& tensor) const {
    return given && tensor.data() == given->bytes.data();
  }

  fabric::Device& device;
  landing::Launch launch;
  Ticket ticket;
  const SenderOptions options;
  landing::BufferPool pool;
  std::vector<std::optional<Buffer>> held;  // by slot: until the tensor there is let go of
  std::optional<Buffer> given;              // by output()
  std::span<std::byte> given_pad;           // or this, in the receiver
  // Of the tensor that is under way.
  Metadata::Wire wire;
  fabric::Transfer ahead;
  fabric::Transfer written;
  std::optional<Buffer> writing;
  bool under_way = false;
  std::uint64_t offers = 0;                  // that were looked at
  std::optional<landing::Launch::Aim> next;  // where tensors go to after the one that begins
  bool broken = false;
  EdgeStats stats;
};

Result<DynamicSender> DynamicSender::open(fabric::Device& device, fabric::Channel& channel,
                                          const Ticket& ticket, const tensor::Spec& spec,
                                          SenderOptions options) {
  if (ticket.protocol != TransferProtocol::kDynamic || !(ticket.spec == spec))
    return fail(
        Code::kInvalidArgument, "the ticket is for {} {}, and {} is to be sent",
        ticket.protocol == TransferProtocol::kDynamic ? "tensors of" : "another protocol and",
        ticket.spec.to_string(), spec.to_string());
  if (ticket.body < Metadata::kBytes || ticket.body % 64 != 0)
    return fail(Code::kInvalidArgument, "a dynamic edge with slots of {} bytes", ticket.body);
  auto launch = FERRY_TRY(landing::Launch::open(device, channel, ticket, options.mode));
  return DynamicSender(std::make_unique<Core>(device, channel, std::move(launch), ticket, options));
}

DynamicSender::DynamicSender(std::unique_ptr<Core> core) : core_(std::move(core)) {}
DynamicSender::DynamicSender(DynamicSender&&) noexcept = default;
DynamicSender& DynamicSender::operator=(DynamicSender&&) noexcept = default;
DynamicSender::~DynamicSender() {
  if (core_ != nullptr && core_->under_way) core_->settle();
}

Result<tensor::Tensor> DynamicSender::output(const tensor::Spec& spec) {
  if (!core_->ticket.spec.admits(spec))
    return fail(Code::kInvalidArgument, "the edge carries {}, not {}",
                core_->ticket.spec.to_string(), spec.to_string());
  auto bytes = FERRY_TRY(spec.bytes());
  if (core_->given) core_->pool.give(std::exchange(core_->given, {})->index);
  core_->given_pad = {};
  bool maps = core_->options.in_place && !core_->launch.body().empty();
  if (maps && core_->fits(bytes) && FERRY_TRY(core_->launch.free())) {
    core_->let_go_of_slot();
    core_->given_pad = core_->in_pad(bytes);
    return tensor::Tensor::over(spec, core_->given_pad);
  }
  core_->given = FERRY_TRY(core_->take_buffer(bytes));
  return tensor::Tensor::over(spec, core_->given->bytes.first(bytes));
}

bool DynamicSender::output_in_place() const { return core_->given_pad.data() != nullptr; }

Result<bool> DynamicSender::ready() { return core_->launch.free(); }

Status DynamicSender::send(const tensor::Tensor& tensor, Deadline deadline) {
  auto& core = *core_;
  FERRY_TRY(core.check(tensor));
  if (!core.is_in_pad(tensor))
    while (!FERRY_TRY(core.prepare())) FERRY_TRY(core.launch.wait_free(deadline));
  FERRY_TRY(core.begin(tensor, deadline));
  return core.end();
}

Result<bool> DynamicSender::start(const tensor::Tensor& tensor) {
  auto& core = *core_;
  FERRY_TRY(core.check(tensor));
  if (!core.is_in_pad(tensor) && !FERRY_TRY(core.prepare())) {
    FERRY_TRY(core.check_receiver());
    return false;
  }
  FERRY_TRY(core.begin(tensor, {}));
  core.under_way = true;
  return true;
}

Result<bool> DynamicSender::finished() {
  if (!core_->ended()) return false;
  core_->under_way = false;
  FERRY_TRY(core_->end());
  return true;
}

bool DynamicSender::may_be_ready() const {
  return core_->under_way ? core_->written.ended() && core_->ahead.ended()
                          : core_->launch.may_be_ready();
}

Status DynamicSender::drain(Deadline deadline) {
  FERRY_TRY(core_->launch.wait_all(deadline));
  core_->reclaim();
  return {};
}

EdgeStats DynamicSender::stats() const { return core_->stats; }

}  // namespace ferry::transfer
