// Data path.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "ferry/landing/buffer_pool.h"
#include "ferry/landing/landing.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/metadata_internal.h"

namespace ferry::transfer {

namespace {
// Tensors beyond the pad before a larger one is offered: one alone may be the exception.
constexpr std::uint64_t kLargeOnes = 2;
}  // namespace

struct DynamicReceiver::Core final : Arrival::Owner {
  // What the arrival's token says it holds: 0 the slot (or the sender's buffer), else a buffer.
  static constexpr std::uint64_t kSlotToken = 0;

  Core(fabric::Device& on, fabric::Channel& from, landing::Landing slots, const Ticket& made,
       DynamicOptions how)
      : device(on),
        channel(from),
        landing(std::make_unique<landing::Landing>(std::move(slots))),
        ticket(made),
        options(how),
        in_slots(ticket.slots),
        pool(on, nullptr) {}
  // Memory of this is the library's until they have ended.
  ~Core() {
    for (auto* transfer : {&read, &offering}) {
      transfer->cancel();
      (void)transfer->wait();
    }
  }

  Status let_go(std::uint64_t sequence, std::uint64_t token) override {
    if (token == kSlotToken) return acknowledge(sequence);
    pool.give(token - 1);
    return {};  // the sender was told when its buffer had been read
  }

  // Any thread, once a tensor has been taken: the words are the same for every landing.
  Status acknowledge(std::uint64_t sequence) const {
    return words[(sequence - 1) % ticket.slots].store(sequence);
  }

  bool maps_sender() const { return options.in_place && channel.capabilities().maps_peer; }
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
    if (metadata->moves && offered == nullptr)
      return fail(Code::kDataLoss, "{} moves to a landing that was not offered",
                  channel.peer_endpoint());
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
      if (current->where == Metadata::Where::kSender) FERRY_TRY(begin_large());
    }
    if (!reading) return true;
    if (!read.poll()) return false;
    return FERRY_TRY(end_read());
  }

  // If it fails the tensor stays where it is, to be looked at again.
  Status begin_large() {
    auto begun = try_large();
    if (!begun) current.reset();
    return begun;
  }

  Status try_large() {
    if (maps_sender()) {
      auto there = map(current->region);
      if (there) {
        mapped = there->first(current->bytes);
        return {};
      }
      // What the sender did not hand over in time is read: that has no wait that ignores deadlines.
      if (there.error().code() != Code::kDeadlineExceeded)
        return tl::unexpected<Error>(there.error());
    }
    storage = FERRY_TRY(pool.take(current->bytes));
    ++stats.reads;
    reading = true;
    read = channel.read(storage->bytes.first(current->bytes), current->region);
    return {};
  }

  // The read goes on if the deadline comes first; advance() says how it ended.
  Status await_read(Deadline deadline, fabric::WaitMode mode) {
    if (device.wait_until([this] { return read.ended(); }, deadline, mode)) return {};
    return fail(Code::kDeadlineExceeded, "tensor {} of {} bytes is still being read from {}",
                landing->expected(), current->bytes, channel.peer_endpoint());
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
    if (found == maps.end())
      found = maps.emplace(region.key, FERRY_TRY(channel.map(region, Deadline()))).first;
    if (found->second.size() < current->bytes)
      return fail(Code::kDataLoss, "{} granted {} bytes of a tensor of {}", channel.peer_endpoint(),
                  found->second.size(), current->bytes);
    return found->second;
  }

  // The sender has taken the offer: what follows comes there.
  void move() {
    offered->follow(*landing, landing->expected());
    // Tensors in the old one may still be in use. Each is half as large as the next at most.
    left.push_back(std::exchange(landing, std::exchange(offered, nullptr)));
  }

  void learn_words() {
    if (words.empty()) words = landing->acknowledgements();
  }

  // Offers a pad in which the tensors that went beyond the last one would have fitted. Waits for
  // nobody: a sender that does not see the offer goes on as it did.
  Status offer_larger() {
    auto most = align_up(std::min(options.most_pad, landing::Layout::kMostBody), 64);
    auto body = std::min(std::bit_ceil(align_up(largest, 64)), most) + Metadata::kBytes;
    auto layout = FERRY_TRY(landing::Layout::of(ticket.slots, body));
    auto next = FERRY_TRY(landing::Landing::open(device, channel, layout, ticket.nonce));
    offer = Offer{next.remote(), body}.to_wire();
    auto at = ticket.slots * landing::Layout::kLine;
    const auto& to = landing->sender_words();
    (void)offering.wait();  // the last one was taken, so it has ended
    offering = channel.write_flagged(offer, {to, at}, {to, at + landing::Layout::kHelloFlag},
                                     ++offers, {}, false);
    offered = std::make_unique<landing::Landing>(std::move(next));
    return {};
  }

  void consider_pad(std::uint64_t bytes) {
    if (bytes > options.most_pad || offered != nullptr) return;
    largest = std::max(largest, bytes);
    if (++large_ones < enough_large_ones) return;
    // Without memory for it the edge works as it did, and tries again less and less often.
    if (!offer_larger()) enough_large_ones *= 2;
    large_ones = 0;
    largest = 0;
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
    if (token != kSlotToken) (void)acknowledge(sequence);  // it is whole, whoever is gone
    if (current->moves) move();
    auto size = current->bytes;
    current.reset();
    ++stats.tensors;
    stats.in_place += in_sender ? 1 : 0;
    // Where the sender's memory is used in place, a pad would have every later one copied.
    if (!in_slot && !in_sender && !maps_sender()) consider_pad(size);
    return arrival;
  }

  fabric::Device& device;
  fabric::Channel& channel;
  std::unique_ptr<landing::Landing> landing;
  std::unique_ptr<landing::Landing> offered;  // the sender has not moved there yet
  std::vector<std::unique_ptr<landing::Landing>> left;
  Ticket ticket;
  const DynamicOptions options;
  std::vector<landing::RemoteWord> words;  // acknowledgements, by slot

  // What arrivals show: by slot, or by the buffer that a tensor was read to.
  tensor::Tensor& in_buffer(std::size_t index) {
    if (index >= in_buffers.size()) in_buffers.resize(index + 1);
    return in_buffers[index];
  }
  std::vector<tensor::Tensor> in_slots;
  std::deque<tensor::Tensor> in_buffers;

  std::optional<Metadata> current;  // of the tensor that has arrived
  landing::BufferPool pool;
  std::optional<landing::BufferPool::Buffer> storage;  // where it is read to
  bool reading = false;
  fabric::Transfer read;
  std::span<std::byte> mapped;  // or where it is in the sender
  std::unordered_map<std::uint64_t, std::span<std::byte>> maps;

  std::uint64_t offers = 0;
  Offer::Wire offer;  // the last one, until `offering` has ended
  fabric::Transfer offering;
  std::uint64_t largest = 0;  // of the tensors that did not fit the pad but might
  std::uint64_t large_ones = 0;
  std::uint64_t enough_large_ones = kLargeOnes;
  bool broken = false;
  EdgeStats stats;
};

Result<DynamicReceiver> DynamicReceiver::open(fabric::Device& device, fabric::Channel& channel,
                                              const tensor::Spec& spec, DynamicOptions options) {
  auto body = align_up(std::min(options.pad, landing::Layout::kMostBody), 64) + Metadata::kBytes;
  auto layout = FERRY_TRY(landing::Layout::of(options.slots, body));
  auto landing =
      FERRY_TRY(landing::Landing::open(device, channel, layout, landing::random_nonce()));
  const Ticket ticket{landing.address(device, options.spins), TransferProtocol::kDynamic, 0, spec};
  return DynamicReceiver(
      std::make_unique<Core>(device, channel, std::move(landing), ticket, options));
}

DynamicReceiver::DynamicReceiver(std::unique_ptr<Core> core) : core_(std::move(core)) {}
DynamicReceiver::DynamicReceiver(DynamicReceiver&&) noexcept = default;
DynamicReceiver& DynamicReceiver::operator=(DynamicReceiver&&) noexcept = default;
DynamicReceiver::~DynamicReceiver() = default;

const Ticket& DynamicReceiver::ticket() const { return core_->ticket; }

Result<bool> DynamicReceiver::ready() { return core_->advance(); }

bool DynamicReceiver::may_be_ready() const {
  return core_->reading ? core_->read.ended() : core_->current || core_->landing->may_be_ready();
}

Result<Arrival> DynamicReceiver::receive(Deadline deadline, fabric::WaitMode mode) {
  if (core_->broken)
    return fail(Code::kFailedPrecondition, "an earlier read on this edge failed; open it anew");
  for (;;) {
    if (FERRY_TRY(core_->advance())) return core_->hand_out();
    if (core_->reading) {
      FERRY_TRY(core_->await_read(deadline, mode));
    } else {
      FERRY_TRY(core_->landing->wait(deadline, mode));
    }
  }
}

EdgeStats DynamicReceiver::stats() const { return core_->stats; }

}  // namespace ferry::transfer
