// Data path.
#include <optional>
#include <vector>

#include "ferry/landing/landing.h"
#include "ferry/transfer/shared_layout_internal.h"
#include "ferry/transfer/shared_tensor.h"

namespace ferry::transfer {

struct SharedWriter::Core {
  struct Seat {
    fabric::Channel* channel = nullptr;  // null: free
    fabric::RemoteRegion grant;
    bool spins = false;
  };

  Core(fabric::Device& on, const tensor::Spec& what, fabric::Region memory,
       const SharedLayout& layout)
      : device(on), spec(what), region(std::move(memory)), words(layout, region.data()) {}

  // Whoever has left or died uses nothing. One that only seems to be dead finds its words changed.
  bool gone(std::uint32_t seat) const {
    const auto* channel = seats[seat].channel;
    if (channel == nullptr) return false;
    auto word = words.in_use(seat).load(std::memory_order_acquire);
    return !channel->alive() || (word & SeatWord::kState) == SeatWord::kLeft;
  }
  void vacate(std::uint32_t seat) {
    words.in_use(seat).store(0, std::memory_order_seq_cst);
    words.copying(seat).store(0, std::memory_order_seq_cst);
    (void)device.revoke(seats[seat].grant, Deadline());
    seats[seat] = {};
  }
  void vacate_gone() {
    for (std::uint32_t seat = 0; seat < seats.size(); ++seat)
      if (gone(seat)) vacate(seat);
  }
  bool used(std::uint32_t version) const {
    for (std::uint32_t seat = 0; seat < seats.size(); ++seat) {
      if (seats[seat].channel == nullptr) continue;
      if (SeatWord::names(words.in_use(seat).load(std::memory_order_seq_cst), version) ||
          SeatWord::names(words.copying(seat).load(std::memory_order_seq_cst), version))
        return true;
    }
    return false;
  }
  // Whether take_one() might find more than last time.
  bool may_be_ready() const {
    auto newest = words.newest().version;
    for (std::uint32_t version = 0; version < words.layout().versions; ++version)
      if (version != newest && !used(version)) return true;
    for (std::uint32_t seat = 0; seat < seats.size(); ++seat)
      if (gone(seat)) return true;
    return false;
  }
  // Takes the version out of circulation; false if somebody uses it.
  bool try_take(std::uint32_t version) const {
    auto number = words.sequence_of(version);
    auto held = number.load(std::memory_order_relaxed);
    number.store(0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!used(version)) return true;
    number.store(held, std::memory_order_release);
    return false;
  }
  bool take_one() {
    vacate_gone();
    auto newest = words.newest();
    for (std::uint32_t version = 0; version < words.layout().versions; ++version) {
      if (newest.sequence != 0 && version == newest.version) continue;
      if (!used(version) && try_take(version)) {
        writing = version;
        return true;
      }
    }
    return false;
  }
  // Readers look at the word of the newest version themselves: those that sleep are woken.
  void tell() const {
    for (const auto& seat : seats)
      if (seat.channel != nullptr && !seat.spins && seat.channel->alive())
        seat.channel->wake_peer();
  }

  fabric::Device& device;
  const tensor::Spec spec;
  fabric::Region region;
  SharedWords words;
  std::vector<Seat>
      seats;  // as many as were ever taken at once: all are looked at for each version
  std::optional<std::uint32_t> writing;
  std::uint64_t published = 0;
};

Result<SharedWriter> SharedWriter::open(fabric::Device& device, const tensor::Spec& spec,
                                        SharedOptions options) {
  const auto bytes = FERRY_TRY(spec.bytes());
  auto layout = FERRY_TRY(SharedLayout::of(options.versions, options.readers, bytes));
  auto region = FERRY_TRY(device.allocate(layout.bytes(), fabric::Rights::kReadWrite));
  return SharedWriter(std::make_unique<Core>(device, spec, std::move(region), layout));
}

SharedWriter::SharedWriter(std::unique_ptr<Core> core) : core_(std::move(core)) {}
SharedWriter::SharedWriter(SharedWriter&&) noexcept = default;
SharedWriter& SharedWriter::operator=(SharedWriter&&) noexcept = default;
SharedWriter::~SharedWriter() = default;

Result<Ticket> SharedWriter::admit(fabric::Channel& reader, bool spins) {
  if (!reader.capabilities().maps_peer)
    return fail(Code::kUnimplemented,
                "{} is reached over {}, which maps no memory; send it the tensor by a slot",
                reader.peer_endpoint(), reader.provider());
  core_->vacate_gone();
  std::uint32_t index = 0;
  while (index < core_->seats.size() && core_->seats[index].channel != nullptr) ++index;
  const auto& layout = core_->words.layout();
  if (index == layout.seats)
    return fail(Code::kResourceExhausted, "all {} readers of the shared tensor are there",
                layout.seats);
  Ticket ticket;
  ticket.protocol = TransferProtocol::kShared;
  ticket.spins = spins;
  ticket.slots = layout.versions;
  ticket.seat = index;
  ticket.body = layout.body;
  ticket.nonce = landing::random_nonce();
  ticket.owner = core_->device.id();
  ticket.region = FERRY_TRY(core_->device.grant(core_->region, fabric::Rights::kReadWrite, reader));
  ticket.spec = core_->spec;
  auto idle = SeatWord::of(ticket.nonce, SeatWord::kIdle);
  core_->words.in_use(index).store(idle, std::memory_order_release);
  core_->words.copying(index).store(idle, std::memory_order_release);
  if (index == core_->seats.size()) core_->seats.emplace_back();
  core_->seats[index] = {&reader, ticket.region, spins};
  return ticket;
}

Result<tensor::Tensor> SharedWriter::output(Deadline deadline) {
  auto& core = *core_;
  while (!core.writing && !core.take_one()) {
    if (!core.device.wait_until([&core] { return core.may_be_ready(); }, deadline))
      return fail(Code::kDeadlineExceeded, "readers use all {} versions of the shared tensor",
                  core.words.layout().versions);
  }
  return tensor::Tensor::over(core.spec, core.words.payload(*core.writing));
}

Result<std::uint64_t> SharedWriter::publish() {
  auto& core = *core_;
  if (!core.writing)
    return fail(Code::kFailedPrecondition, "there is nothing to publish: output() comes first");
  auto sequence = ++core.published;
  core.words.sequence_of(*core.writing).store(sequence, std::memory_order_release);
  core.words.set_newest({sequence, *core.writing});
  core.writing.reset();
  core.tell();
  return sequence;
}

}  // namespace ferry::transfer
