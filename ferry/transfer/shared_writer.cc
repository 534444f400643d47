// Data path.
#include <cstring>
#include <optional>
#include <vector>

#include "ferry/transfer/landing_internal.h"
#include "ferry/transfer/remote_word_internal.h"
#include "ferry/transfer/shared_layout_internal.h"
#include "ferry/transfer/shared_tensor.h"

namespace ferry::transfer {

struct SharedWriter::Core {
  struct Seat {
    fabric::Channel* channel = nullptr;  // null: free
    fabric::RemoteRegion grant;
    std::uint64_t nonce = 0;
    bool spins = false;
    std::optional<RemoteWord> news;
  };

  Core(fabric::Device& on, const tensor::Spec& what, fabric::Region memory,
       const SharedLayout& layout)
      : device(on),
        spec(what),
        region(std::move(memory)),
        words(layout, region.data()),
        seats(layout.seats) {}

  bool here(std::uint32_t seat) const {
    return seats[seat].channel != nullptr && seats[seat].channel->alive() &&
           words.left(seat).load(std::memory_order_acquire) == 0;
  }
  // A reader that has left or died uses nothing.
  void vacate(std::uint32_t seat) {
    (void)device.revoke(seats[seat].grant, Deadline());
    std::memset(words.seat(seat), 0, SharedLayout::kLine);
    seats[seat] = {};
  }
  bool used(std::uint32_t version) const {
    for (std::uint32_t seat = 0; seat < seats.size(); ++seat) {
      if (seats[seat].channel == nullptr) continue;
      bool holds = words.in_use(seat).load(std::memory_order_seq_cst) == version + 1 ||
                   words.copying(seat).load(std::memory_order_seq_cst) == version + 1;
      if (holds && here(seat)) return true;
    }
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
  // The reader's hello has come: its news word is known. One that says nonsense gets no news.
  void meet(std::uint32_t index) {
    auto& seat = seats[index];
    if (words.news_flag(index).load(std::memory_order_acquire) != seat.nonce) return;
    std::array<std::byte, fabric::RemoteRegion::kWireBytes> wire;
    std::memcpy(wire.data(), words.seat(index) + SharedLayout::kNews, wire.size());
    auto region = fabric::RemoteRegion::from_wire(wire);
    if (!region || region->length < sizeof(std::uint64_t)) return;
    auto mapped = seat.channel->map(*region);
    if (!mapped || mapped->size() < sizeof(std::uint64_t)) return;
    seat.news.emplace(*seat.channel, *region, mapped->data(), !seat.spins);
  }
  void tell(std::uint64_t sequence) {
    for (std::uint32_t index = 0; index < seats.size(); ++index) {
      auto& seat = seats[index];
      if (seat.channel == nullptr) continue;
      if (!here(index)) {
        vacate(index);
        continue;
      }
      if (!seat.news) meet(index);
      if (seat.news) (void)seat.news->store(sequence);  // who is gone needs no news
    }
  }

  fabric::Device& device;
  const tensor::Spec spec;
  fabric::Region region;
  SharedWords words;
  std::vector<Seat> seats;
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
  std::uint32_t index = 0;
  for (; index < core_->seats.size(); ++index) {
    if (core_->seats[index].channel != nullptr && !core_->here(index)) core_->vacate(index);
    if (core_->seats[index].channel == nullptr) break;
  }
  const auto& layout = core_->words.layout();
  if (index == core_->seats.size())
    return fail(Code::kResourceExhausted, "all {} readers of the shared tensor are there",
                layout.seats);
  Ticket ticket;
  ticket.protocol = Protocol::kShared;
  ticket.spins = spins;
  ticket.slots = layout.versions;
  ticket.seat = index;
  ticket.body = layout.body;
  ticket.nonce = random_nonce();
  ticket.owner = core_->device.id();
  ticket.region = FERRY_TRY(core_->device.grant(core_->region, fabric::Rights::kReadWrite, reader));
  ticket.spec = core_->spec;
  core_->seats[index] = {&reader, ticket.region, ticket.nonce, spins, std::nullopt};
  return ticket;
}

Result<tensor::Tensor> SharedWriter::output(Deadline deadline) {
  auto& core = *core_;
  while (!core.writing && !core.take_one()) {
    auto newest = core.words.newest();
    auto free = [&core, newest] {
      for (std::uint32_t i = 0; i < core.words.layout().versions; ++i)
        if (i != newest.version && !core.used(i)) return true;
      return false;
    };
    if (!core.device.wait_until(free, deadline))
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
  // A reader says where its news word is, then looks for the newest version; here it is the
  // reverse.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  core.tell(sequence);
  return sequence;
}

}  // namespace ferry::transfer
