// Data path.
#include <array>
#include <cstring>
#include <deque>
#include <optional>

#include "ferry/base/stall.h"
#include "ferry/landing/buffer_pool.h"
#include "ferry/transfer/shared_layout_internal.h"
#include "ferry/transfer/shared_tensor.h"

namespace ferry::transfer {

struct SharedReader::Core final : Arrival::Owner {
  static constexpr std::uint64_t kLeaseToken = 0;
  // Each one that fails means that the writer has gone through all versions meanwhile.
  static constexpr int kMostTries = 10'000;

  Core(fabric::Device& device, fabric::Channel& from, const Ticket& by, SharedWords shared)
      : channel(from), ticket(by), words(shared), pool(device, nullptr) {}
  ~Core() {
    bool holds = leased.load(std::memory_order_acquire);
    (void)change(in_use(), holds ? naming(leased_version) : SeatWord::kIdle, SeatWord::kLeft);
    channel.wake_peer();
  }

  Word in_use() const { return words.in_use(ticket.seat); }
  Word copying() const { return words.copying(ticket.seat); }
  static std::uint64_t naming(std::uint32_t version) { return SeatWord::kFirst + version; }
  // kUnavailable if the seat is not this reader's any more. Until it says so, no version that the
  // seat named was written.
  Status change(Word word, std::uint64_t from, std::uint64_t to) const {
    auto expected = SeatWord::of(ticket.nonce, from);
    if (word.compare_exchange_strong(expected, SeatWord::of(ticket.nonce, to))) return {};
    return given_up();
  }
  Status given_up() const {
    return fail(
        Code::kUnavailable,
        "the writer at {} is gone, or has given this reader up: what was read may have been "
        "overwritten",
        channel.peer_endpoint());
  }

  Status let_go(std::uint64_t, std::uint64_t token) override {
    if (token != kLeaseToken) {
      pool.give(token - 1);
      return {};
    }
    auto good = change(in_use(), naming(leased_version), SeatWord::kIdle);
    leased.store(false, std::memory_order_release);
    channel.wake_peer();  // the writer may wait for it
    return channel.alive() ? good : given_up();
  }

  // Holds the newest version by one of the seat's words. It cannot be written from then on.
  // Nothing: it is not there yet.
  Result<std::optional<SharedWords::Newest>> hold(Word word, std::uint64_t least) const {
    for (int tries = 0; tries < kMostTries; ++tries) {
      auto newest = words.newest();
      if (newest.sequence < least) return std::nullopt;
      if (newest.version >= words.layout().versions) break;
      FERRY_TRY(change(word, SeatWord::kIdle, naming(newest.version)));
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (words.sequence_of(newest.version).load(std::memory_order_acquire) == newest.sequence)
        return newest;
      FERRY_TRY(change(word, naming(newest.version), SeatWord::kIdle));
    }
    return fail(Code::kDataLoss,
                "the writer at {} says that version {} is the newest, and it is not",
                channel.peer_endpoint(), words.newest().sequence);
  }

  // Whether the writer keeps a version to write if this reader stays with its own: all that are in
  // use, and two more.
  bool leaves_room() const {
    std::array<bool, SharedLayout::kMostVersions> seen{};
    std::uint32_t count = 0;
    for (std::uint32_t seat = 0; seat < words.layout().seats; ++seat) {
      auto state = words.in_use(seat).load(std::memory_order_seq_cst) & SeatWord::kState;
      auto held = state - SeatWord::kFirst;
      if (held >= words.layout().versions || seen[held]) continue;
      seen[held] = true;
      ++count;
    }
    return count + 2 <= words.layout().versions;
  }

  // Nothing: there is no such version yet.
  Result<std::optional<Arrival>> try_read(std::uint64_t least) {
    if (!leased.load(std::memory_order_acquire)) {
      auto held = FERRY_TRY(hold(in_use(), least));
      if (!held) return std::optional<Arrival>();
      if (leaves_room()) return FERRY_TRY(in_place(*held));
      FERRY_TRY(change(in_use(), naming(held->version), SeatWord::kIdle));
    }
    auto held = FERRY_TRY(hold(copying(), least));
    if (!held) return std::optional<Arrival>();
    auto copied = copy(*held);
    FERRY_TRY(change(copying(), naming(held->version), SeatWord::kIdle));
    channel.wake_peer();
    return FERRY_TRY(std::move(copied));
  }

  Result<std::optional<Arrival>> in_place(SharedWords::Newest held) {
    leased_version = held.version;
    leased.store(true, std::memory_order_relaxed);
    ++stats.tensors;
    ++stats.in_place;
    lease = FERRY_TRY(tensor::Tensor::over(ticket.spec, words.payload(held.version)));
    return std::optional<Arrival>(std::in_place, this, held.sequence, kLeaseToken, &lease);
  }

  Result<std::optional<Arrival>> copy(SharedWords::Newest held) {
    auto from = words.payload(held.version);
    auto buffer = FERRY_TRY(pool.take(from.size()));
    auto bytes = buffer.bytes.first(from.size());
    stall_for_tests(StallPoint::kCopyVersion);
    if (!from.empty()) std::memcpy(bytes.data(), from.data(), from.size());
    ++stats.tensors;
    ++stats.copies;
    if (buffer.index >= copies.size()) copies.resize(buffer.index + 1);
    auto& tensor = copies[buffer.index];
    tensor = FERRY_TRY(tensor::Tensor::over(ticket.spec, bytes));
    return std::optional<Arrival>(std::in_place, this, held.sequence, buffer.index + 1, &tensor);
  }

  fabric::Channel& channel;
  const Ticket ticket;
  SharedWords words;
  landing::BufferPool pool;
  tensor::Tensor lease;               // what arrivals show: in place,
  std::deque<tensor::Tensor> copies;  // or by buffer
  std::atomic<bool> leased{false};
  std::uint32_t leased_version = 0;
  EdgeStats stats;
};

Result<SharedReader> SharedReader::open(fabric::Device& device, fabric::Channel& channel,
                                        const Ticket& ticket, const tensor::Spec& spec) {
  if (ticket.protocol != TransferProtocol::kShared || !(ticket.spec == spec))
    return fail(
        Code::kInvalidArgument, "the ticket is for {} {}, and {} is to be read",
        ticket.protocol == TransferProtocol::kShared ? "tensors of" : "another protocol and",
        ticket.spec.to_string(), spec.to_string());
  if (channel.peer() != ticket.owner)
    return fail(Code::kFailedPrecondition,
                "the ticket is not of the device at {}, or of an earlier run of it; ask for a new "
                "one",
                channel.peer_endpoint());
  auto memory = FERRY_TRY(channel.map(ticket.region));
  // The number of seats is what the region has room for.
  auto fixed = FERRY_TRY(SharedLayout::of(ticket.slots, 1, ticket.body));
  if (memory.size() < fixed.bytes())
    return fail(Code::kOutOfRange, "the ticket speaks of {} bytes, {} are granted", fixed.bytes(),
                memory.size());
  auto seats = 1 + (memory.size() - fixed.bytes()) / SharedLayout::kLine;
  auto layout =
      FERRY_TRY(SharedLayout::of(ticket.slots, static_cast<std::uint32_t>(seats), ticket.body));
  if (ticket.seat >= layout.seats)
    return fail(Code::kOutOfRange, "a ticket for seat {} of {}", ticket.seat, layout.seats);
  SharedWords words(layout, memory.data());
  if (words.in_use(ticket.seat).load() != SeatWord::of(ticket.nonce, SeatWord::kIdle))
    return fail(Code::kFailedPrecondition,
                "the ticket's seat was given up, or is taken already; ask for a new ticket");
  return SharedReader(std::make_unique<Core>(device, channel, ticket, words));
}

SharedReader::SharedReader(std::unique_ptr<Core> core) : core_(std::move(core)) {}
SharedReader::SharedReader(SharedReader&&) noexcept = default;
SharedReader& SharedReader::operator=(SharedReader&&) noexcept = default;
SharedReader::~SharedReader() = default;

bool SharedReader::ready(std::uint64_t least) const {
  auto newest = core_->words.newest().sequence;
  return newest != 0 && newest >= least;
}

Result<Arrival> SharedReader::read(std::uint64_t least, Deadline deadline, fabric::WaitMode mode) {
  least = std::max<std::uint64_t>(least, 1);
  for (;;) {
    auto got = FERRY_TRY(core_->try_read(least));
    if (got) return std::move(*got);
    FERRY_TRY(core_->channel.wait_flag(core_->words.newest_word(), SharedWords::newest_value(least),
                                       deadline, mode));
  }
}

EdgeStats SharedReader::stats() const { return core_->stats; }

}  // namespace ferry::transfer
