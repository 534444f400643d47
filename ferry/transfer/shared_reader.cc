// Data path.
#include <array>
#include <cstring>
#include <deque>
#include <optional>

#include "ferry/transfer/buffer_pool_internal.h"
#include "ferry/transfer/shared_layout_internal.h"
#include "ferry/transfer/shared_tensor.h"

namespace ferry::transfer {

struct SharedReader::Core final : Arrival::Owner {
  static constexpr std::uint64_t kLeaseToken = 0;
  // Each one that fails means that the writer has gone through all versions meanwhile.
  static constexpr int kMostTries = 10'000;

  Core(fabric::Device& device, fabric::Channel& from, const Ticket& by, SharedWords shared,
       fabric::Region own)
      : channel(from), ticket(by), words(shared), news(std::move(own)), pool(device, nullptr) {}
  ~Core() {
    words.in_use(ticket.seat).store(0, std::memory_order_release);
    words.left(ticket.seat).store(1, std::memory_order_release);
    channel.wake_peer();
  }

  Status let_go(std::uint64_t, std::uint64_t token) override {
    if (token != kLeaseToken) {
      pool.give(token - 1);
      return {};
    }
    words.in_use(ticket.seat).store(0, std::memory_order_release);
    leased.store(false, std::memory_order_release);
    channel.wake_peer();  // the writer may wait for it
    if (channel.alive()) return {};
    return fail(Code::kUnavailable,
                "the writer at {} is gone, or has given this reader up: what was read in place may "
                "have been overwritten",
                channel.peer_endpoint());
  }

  // Holds the newest version by one of the seat's words. It cannot be written from then on.
  // Nothing: it is not there yet.
  Result<std::optional<SharedWords::Newest>> hold(Word word, std::uint64_t least) const {
    for (int tries = 0; tries < kMostTries; ++tries) {
      auto newest = words.newest();
      if (newest.sequence < least) return std::nullopt;
      if (newest.version >= words.layout().versions) break;
      word.store(newest.version + 1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (words.sequence_of(newest.version).load(std::memory_order_acquire) == newest.sequence)
        return newest;
      word.store(0, std::memory_order_release);
    }
    return fail(Code::kDataLoss,
                "the writer at {} says that version {} is the newest, and it is not",
                channel.peer_endpoint(), words.newest().sequence);
  }

  // Whether the writer keeps a version to write if this reader stays with its own: all that are in
  // use, and two more.
  bool leaves_room() const {
    std::array<bool, SharedLayout::kMostVersions + 1> seen{};
    std::uint32_t count = 0;
    for (std::uint32_t seat = 0; seat < words.layout().seats; ++seat) {
      auto held = words.in_use(seat).load(std::memory_order_seq_cst);
      if (held == 0 || held > words.layout().versions || seen[held]) continue;
      seen[held] = true;
      ++count;
    }
    return count + 2 <= words.layout().versions;
  }

  // Nothing: there is no such version yet.
  Result<std::optional<Arrival>> try_read(std::uint64_t least) {
    if (!leased.load(std::memory_order_acquire)) {
      auto held = FERRY_TRY(hold(words.in_use(ticket.seat), least));
      if (!held) return std::optional<Arrival>();
      if (leaves_room()) return FERRY_TRY(in_place(*held));
      words.in_use(ticket.seat).store(0, std::memory_order_release);
    }
    auto held = FERRY_TRY(hold(words.copying(ticket.seat), least));
    if (!held) return std::optional<Arrival>();
    auto copied = copy(*held);
    words.copying(ticket.seat).store(0, std::memory_order_release);
    channel.wake_peer();
    return FERRY_TRY(std::move(copied));
  }

  Result<std::optional<Arrival>> in_place(SharedWords::Newest held) {
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
  fabric::Region news;  // a word that the writer sets to the number of each version
  BufferPool pool;
  tensor::Tensor lease;               // what arrivals show: in place,
  std::deque<tensor::Tensor> copies;  // or by buffer
  std::atomic<bool> leased{false};
  EdgeStats stats;
};

Result<SharedReader> SharedReader::open(fabric::Device& device, fabric::Channel& channel,
                                        const Ticket& ticket, const tensor::Spec& spec) {
  if (ticket.protocol != Protocol::kShared || !(ticket.spec == spec))
    return fail(Code::kInvalidArgument, "the ticket is for {} {}, and {} is to be read",
                ticket.protocol == Protocol::kShared ? "tensors of" : "another protocol and",
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
  auto news = FERRY_TRY(device.allocate(sizeof(std::uint64_t), fabric::Rights::kReadWrite));
  auto granted = FERRY_TRY(device.grant(news, fabric::Rights::kReadWrite, channel));
  auto wire = granted.to_wire();
  SharedWords words(layout, memory.data());
  std::memcpy(words.seat(ticket.seat) + SharedLayout::kNews, wire.data(), wire.size());
  words.news_flag(ticket.seat).store(ticket.nonce, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see SharedWriter::publish()
  return SharedReader(std::make_unique<Core>(device, channel, ticket, words, std::move(news)));
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
    if (fabric::flag_reached(core_->news.data(), least) && !ready(least))
      return fail(Code::kDataLoss, "the writer at {} speaks of version {}, which is not there",
                  core_->channel.peer_endpoint(), least);
    FERRY_TRY(core_->channel.wait_flag(core_->news.data(), least, deadline, mode));
  }
}

EdgeStats SharedReader::stats() const { return core_->stats; }

}  // namespace ferry::transfer
