// Data path.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "ferry/transfer/buffer_pool_internal.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/landing_internal.h"
#include "ferry/transfer/metadata_internal.h"

namespace ferry::transfer {

namespace {
// Tensors beyond the pad before a larger one is offered: one alone may be the exception.
constexpr int kLargeOnes = 2;
}  // namespace

struct DynamicReceiver::Core final : Arrival::Owner {
  // What the arrival's token says it holds: 0 the slot (or the sender's buffer), else a buffer.
  static constexpr std::uint64_t kSlotToken = 0;

  Core(fabric::Device& on, fabric::Channel& from, Landing slots, const Ticket& made,
       DynamicOptions how)
      : device(on),
        channel(from),
        landing(std::make_unique<Landing>(std::move(slots))),
        ticket(made),
        options(how),
        in_slots(ticket.slots),
        pool(on, nullptr) {}

  Status let_go(std::uint64_t sequence, std::uint64_t token) override {
    if (token == kSlotToken) return acknowledge(sequence);
    pool.give(token - 1);
    return {};  // the sender was told when its buffer had been read
  }

  // Any thread, once a tensor has been taken: the words are the same for every landing.
  Status acknowledge(std::uint64_t sequence) const {
    return words[(sequence - 1) % ticket.slots].store(sequence);
  }

  std::uint64_t pad() const { return landing->layout().body - Metadata::kBytes; }
  std::span<std::byte> metadata_bytes() const { return landing->body().subspan(pad()); }

  // The metadata of the tensor that has arrived, read once and checked.
  Result<Metadata> look() const {
    Metadata::Wire wire;
    auto bytes = metadata_bytes();
    std::copy(bytes.begin(), bytes.end(), wire.begin());
    auto metadata = Metadata::from_wire(wire);
    if (!metadata)
      return fail(Code::kDataLoss, "tensor {} from {}: {}", landing->expected(),
                  channel.peer_endpoint(), metadata.error().message());
    if (metadata->where == Metadata::Where::kMoved) return metadata;
    if (!ticket.spec.admits(metadata->spec))
      return fail(Code::kDataLoss, "{} has sent {} on an edge of {}", channel.peer_endpoint(),
                  metadata->spec.to_string(), ticket.spec.to_string());
    if (metadata->where == Metadata::Where::kSlot && align_up(metadata->bytes, 64) > pad())
      return fail(Code::kDataLoss, "{} says that {} bytes are in a pad of {}",
                  channel.peer_endpoint(), metadata->bytes, pad());
    return metadata;
  }

  // Takes in what has arrived, as far as that goes without waiting. True: there is a tensor to
  // hand out.
  Result<bool> advance() {
    if (!current) {
      if (!FERRY_TRY(landing->arrived())) return false;
      current = FERRY_TRY(look());
      if (current->where == Metadata::Where::kMoved) return FERRY_TRY(move());
      if (current->where == Metadata::Where::kSender) FERRY_TRY(begin_large());
    }
    if (!reading) return true;
    if (!read.poll()) return false;
    return FERRY_TRY(end_read());
  }

  Status begin_large() {
    if (options.in_place && channel.capabilities().maps_peer) {
      mapped = FERRY_TRY(map(current->region)).first(current->bytes);
      return {};
    }
    storage = FERRY_TRY(pool.take(current->bytes));
    ++stats.reads;
    reading = true;
    read = channel.read(storage->bytes.first(current->bytes), current->region);
    return {};
  }

  Result<bool> end_read() {
    auto done = read.wait();
    reading = false;
    if (!done) {
      pool.give(std::exchange(storage, std::nullopt)->index);
      current.reset();
      broken = true;
      return tl::unexpected<Error>(done.error());
    }
    return true;
  }

  Result<std::span<std::byte>> map(const fabric::RemoteRegion& region) {
    auto found = maps.find(region.key);
    if (found == maps.end()) found = maps.emplace(region.key, FERRY_TRY(channel.map(region))).first;
    if (found->second.size() < current->bytes)
      return fail(Code::kDataLoss, "{} granted {} bytes of a tensor of {}", channel.peer_endpoint(),
                  found->second.size(), current->bytes);
    return found->second;
  }

  // The sender has taken the offer: what follows comes there.
  Result<bool> move() {
    if (offered == nullptr)
      return fail(Code::kDataLoss, "{} moved to a landing that was not offered",
                  channel.peer_endpoint());
    auto sequence = FERRY_TRY(landing->take());
    learn_words();
    FERRY_TRY(acknowledge(sequence));
    offered->follow(*landing, landing->expected());
    // Tensors in the old one may still be in use. Each is half as large as the next at most.
    left.push_back(std::exchange(landing, std::exchange(offered, nullptr)));
    current.reset();
    return advance();
  }

  void learn_words() {
    if (words.empty()) words = landing->acknowledgements();
  }

  // Offers a pad in which the tensors that went beyond the last one would have fitted.
  Status offer_larger() {
    large_ones = 0;
    auto body = std::min(std::bit_ceil(align_up(largest, 64)), align_up(options.most_pad, 64)) +
                Metadata::kBytes;
    auto layout = FERRY_TRY(Layout::of(ticket.slots, body));
    auto next = FERRY_TRY(Landing::open(device, channel, layout, ticket.nonce));
    Offer offer{next.remote(), body};
    largest = 0;
    auto wire = offer.to_wire();
    auto at = ticket.slots * Layout::kLine;
    const auto& to = landing->sender_words();
    // A failure shows in what comes next; without the offer the edge works as it did.
    FERRY_TRY(
        channel.write_flagged(wire, {to, at}, {to, at + Layout::kHelloFlag}, ++offers, {}, false)
            .wait());
    offered = std::make_unique<Landing>(std::move(next));
    return {};
  }

  Status consider_pad(std::uint64_t bytes) {
    if (bytes > options.most_pad || offered != nullptr) return {};
    largest = std::max(largest, bytes);
    if (++large_ones < kLargeOnes) return {};
    return offer_larger();
  }

  Result<Arrival> hand_out() {
    bool in_slot = current->where == Metadata::Where::kSlot;
    bool in_sender = !in_slot && !storage;
    auto padded = align_up(current->bytes, 64);
    auto bytes = in_slot     ? landing->body().subspan(pad() - padded, current->bytes)
                 : in_sender ? mapped
                             : storage->bytes.first(current->bytes);
    auto token = storage ? storage->index + 1 : kSlotToken;
    auto& tensor = token == kSlotToken ? in_slots[landing->slot()] : in_buffer(token - 1);
    tensor = FERRY_TRY(tensor::Tensor::over(current->spec, bytes));
    auto sequence = FERRY_TRY(landing->take());
    learn_words();
    storage.reset();
    Arrival arrival(this, sequence, token, &tensor);
    if (token != kSlotToken) FERRY_TRY(acknowledge(sequence));
    auto size = current->bytes;
    current.reset();
    ++stats.tensors;
    stats.in_place += in_sender ? 1 : 0;
    if (!in_slot && !in_sender) FERRY_TRY(consider_pad(size));
    return arrival;
  }

  fabric::Device& device;
  fabric::Channel& channel;
  std::unique_ptr<Landing> landing;
  std::unique_ptr<Landing> offered;  // the sender has not moved there yet
  std::vector<std::unique_ptr<Landing>> left;
  Ticket ticket;
  const DynamicOptions options;
  std::vector<RemoteWord> words;  // acknowledgements, by slot

  // What arrivals show: by slot, or by the buffer that a tensor was read to.
  tensor::Tensor& in_buffer(std::size_t index) {
    if (index >= in_buffers.size()) in_buffers.resize(index + 1);
    return in_buffers[index];
  }
  std::vector<tensor::Tensor> in_slots;
  std::deque<tensor::Tensor> in_buffers;

  std::optional<Metadata> current;  // of the tensor that has arrived
  BufferPool pool;
  std::optional<BufferPool::Buffer> storage;  // where it is read to
  bool reading = false;
  fabric::Transfer read;
  std::span<std::byte> mapped;  // or where it is in the sender
  std::unordered_map<std::uint64_t, std::span<std::byte>> maps;

  std::uint64_t offers = 0;
  std::uint64_t largest = 0;  // of the tensors that did not fit the pad but might
  int large_ones = 0;
  bool broken = false;
  EdgeStats stats;
};

Result<DynamicReceiver> DynamicReceiver::open(fabric::Device& device, fabric::Channel& channel,
                                              const tensor::Spec& spec, DynamicOptions options) {
  auto body = align_up(std::min(options.pad, Layout::kMostBody), 64) + Metadata::kBytes;
  auto layout = FERRY_TRY(Layout::of(options.slots, body));
  auto landing = FERRY_TRY(Landing::open(device, channel, layout, random_nonce()));
  auto ticket = landing.ticket(Protocol::kDynamic, device, spec, options.spins);
  return DynamicReceiver(
      std::make_unique<Core>(device, channel, std::move(landing), ticket, options));
}

DynamicReceiver::DynamicReceiver(std::unique_ptr<Core> core) : core_(std::move(core)) {}
DynamicReceiver::DynamicReceiver(DynamicReceiver&&) noexcept = default;
DynamicReceiver& DynamicReceiver::operator=(DynamicReceiver&&) noexcept = default;
DynamicReceiver::~DynamicReceiver() {
  if (core_ != nullptr && core_->reading) (void)core_->read.wait();
}

const Ticket& DynamicReceiver::ticket() const { return core_->ticket; }

Result<bool> DynamicReceiver::ready() { return core_->advance(); }

bool DynamicReceiver::stirs() const {
  return core_->reading ? core_->read.ended() : core_->current || core_->landing->stirs();
}

Result<Arrival> DynamicReceiver::receive(Deadline deadline, fabric::WaitMode mode) {
  if (core_->broken)
    return fail(Code::kFailedPrecondition, "an earlier read on this edge failed; open it anew");
  for (;;) {
    if (FERRY_TRY(core_->advance())) return core_->hand_out();
    if (core_->reading) {
      (void)core_->read.wait(mode);  // it has a deadline of its own; advance() says how it ended
    } else {
      FERRY_TRY(core_->landing->wait(deadline, mode));
    }
  }
}

EdgeStats DynamicReceiver::stats() const { return core_->stats; }

}  // namespace ferry::transfer
