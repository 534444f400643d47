#include "ferry/runtime/ferry_rendezvous.h"

#include <algorithm>
#include <cstring>

#include "ferry/runtime/ferry_ends_internal.h"

namespace ferry::runtime {
namespace {

using graph::Crossing;
using graph::TransferProtocol;

// The number of a crossing and its ticket, as they travel: 4 and 160 bytes.
constexpr std::size_t kNoteBytes = sizeof(std::uint32_t) + transfer::Ticket::kWireBytes;
using Note = std::array<std::byte, kNoteBytes>;

}  // namespace

CrossingStats& CrossingStats::operator+=(const CrossingStats& other) {
  tensors += other.tensors;
  bytes += other.bytes;
  in_place += other.in_place;
  copies += other.copies;
  endpoint_bytes += other.endpoint_bytes;
  registered += other.registered;
  transfer_ns += other.transfer_ns;
  return *this;
}

CrossingStats& CrossingStats::operator-=(const CrossingStats& other) {
  tensors -= other.tensors;
  bytes -= other.bytes;
  in_place -= other.in_place;
  copies -= other.copies;
  endpoint_bytes -= other.endpoint_bytes;
  registered -= other.registered;
  transfer_ns -= other.transfer_ns;
  return *this;
}

// The owner of the memory hands out the ticket: the receiver, but for shared variables the sender.
class FerryRendezvous::Opening {
 public:
  Opening(FerryRendezvous& owner, const graph::Partition& partition, std::string task,
          Deadline deadline)
      : owner_(owner), partition_(partition), task_(std::move(task)), deadline_(deadline) {}

  Status open() {
    owner_.sends_.resize(partition_.crossings.size());
    owner_.receives_.resize(partition_.crossings.size());
    FERRY_TRY(owner_.links_.open(peers(), deadline_));
    for (const auto& crossing : partition_.crossings)
      if (owner_of(crossing) == task_) FERRY_TRY(offer(crossing));
    for (const auto& peer : peers_by_pair()) FERRY_TRY(exchange(peer));
    for (const auto& [peer, note] : heard_) FERRY_TRY(accept(peer, note));
    return {};
  }

 private:
  static std::string owner_of(const Crossing& crossing) {
    return graph::process_of(crossing.protocol == TransferProtocol::kShared ? crossing.from
                                                                            : crossing.to);
  }
  bool concerns(const Crossing& crossing) const {
    return graph::process_of(crossing.from) == task_ || graph::process_of(crossing.to) == task_;
  }
  std::string peer_of(const Crossing& crossing) const {
    auto from = graph::process_of(crossing.from);
    return from == task_ ? graph::process_of(crossing.to) : from;
  }
  std::set<std::string> peers() const {
    std::set<std::string> found;
    for (const auto& crossing : partition_.crossings)
      if (concerns(crossing)) found.insert(peer_of(crossing));
    return found;
  }

  Status offer(const Crossing& crossing) {
    auto ticket = open_own(crossing, owner_.links_.to(peer_of(crossing)));
    if (!ticket)
      return fail(ticket.error().code(), "'{}' from {} to {}: {}", crossing.name, crossing.from,
                  crossing.to, ticket.error().message());
    auto& note = offers_[peer_of(crossing)].emplace_back();
    std::memcpy(note.data(), &crossing.id, sizeof crossing.id);
    const auto wire = ticket->to_wire();
    std::memcpy(note.data() + sizeof crossing.id, wire.data(), wire.size());
    return {};
  }

  // All tasks go through the pairs in one order, so that the first of those that are left always
  // has both of its tasks: both may have more to say than a channel holds.
  std::vector<std::string> peers_by_pair() const {
    const auto all = peers();
    std::vector<std::string> sorted(all.begin(), all.end());
    std::sort(sorted.begin(), sorted.end(), [this](const auto& a, const auto& b) {
      return std::minmax(task_, a) < std::minmax(task_, b);
    });
    return sorted;
  }

  // Nothing else happens on the channel meanwhile: it would wait behind what is to be heard.
  Status exchange(const std::string& peer) {
    if (task_ < peer) FERRY_TRY(tell(peer));
    FERRY_TRY(hear(peer));
    return task_ < peer ? Status() : tell(peer);
  }

  Status tell(const std::string& peer) {
    for (const auto& note : offers_[peer])
      FERRY_TRY(owner_.links_.to(peer).send(note, {.deadline = deadline_}).wait());
    return {};
  }

  Status hear(const std::string& peer) {
    for (const auto& crossing : partition_.crossings) {
      if (!concerns(crossing) || owner_of(crossing) != peer) continue;
      Note note;
      const auto length = owner_.links_.to(peer).receive(note, deadline_);
      if (!length)
        return fail(length.error().code(), "{} has not opened its crossings: {}", peer,
                    length.error().message());
      if (*length != note.size())
        return fail(Code::kDataLoss, "{} says {} bytes about a crossing", peer, *length);
      heard_.emplace_back(peer, note);
    }
    return {};
  }

  Result<transfer::Ticket> open_own(const Crossing& crossing, fabric::Channel& channel) {
    auto& device = owner_.links_.device();
    auto& end = owner_.receives_[crossing.id];
    if (crossing.protocol == TransferProtocol::kShared) return admit(crossing, channel);
    if (crossing.protocol == TransferProtocol::kStatic) {
      auto receiver = FERRY_TRY(transfer::StaticReceiver::open(device, channel, crossing.spec));
      const auto ticket = receiver.ticket();
      end = static_receive_end(std::move(receiver), channel, owner_.copies_, crossing.from);
      return ticket;
    }
    transfer::DynamicOptions options;
    options.in_place = owner_.copies_ == Copies::kNone;
    auto receiver =
        FERRY_TRY(transfer::DynamicReceiver::open(device, channel, crossing.spec, options));
    const auto ticket = receiver.ticket();
    end = dynamic_receive_end(std::move(receiver), channel, owner_.copies_, crossing.from);
    return ticket;
  }

  Result<transfer::Ticket> admit(const Crossing& crossing, fabric::Channel& reader) {
    auto& variable = owner_.shared_[crossing.variable];
    if (variable == nullptr)
      variable = std::make_unique<FerrySharedVariable>(
          FERRY_TRY(transfer::SharedWriter::open(owner_.links_.device(), crossing.spec)));
    return static_cast<FerrySharedVariable&>(*variable).writer.admit(reader);
  }

  Status accept(const std::string& peer, const Note& note) {
    auto& channel = owner_.links_.to(peer);
    std::uint32_t id = 0;
    std::memcpy(&id, note.data(), sizeof id);
    if (id >= partition_.crossings.size() || owner_of(partition_.crossings[id]) != peer ||
        !concerns(partition_.crossings[id]))
      return fail(Code::kDataLoss, "{} speaks of a crossing that is not between it and {}", peer,
                  task_);
    const auto ticket =
        FERRY_TRY(transfer::Ticket::from_wire(std::span<const std::byte>(note).subspan(sizeof id)));
    auto opened = open_other(partition_.crossings[id], channel, ticket);
    if (!opened)
      return fail(opened.error().code(), "'{}' to {}: {}", partition_.crossings[id].name, peer,
                  opened.error().message());
    return {};
  }

  Status open_other(const Crossing& crossing, fabric::Channel& channel,
                    const transfer::Ticket& ticket) {
    auto& device = owner_.links_.device();
    const auto& spec = crossing.spec;
    const transfer::SenderOptions options{.in_place = owner_.copies_ == Copies::kNone};
    auto& end = owner_.sends_[crossing.id];
    switch (crossing.protocol) {
      case TransferProtocol::kStatic:
        end = static_send_end(
            FERRY_TRY(transfer::StaticSender::open(device, channel, ticket, spec, options)), spec,
            owner_.copies_, crossing.to);
        break;
      case TransferProtocol::kDynamic:
        end = dynamic_send_end(
            FERRY_TRY(transfer::DynamicSender::open(device, channel, ticket, spec, options)), spec,
            owner_.copies_, crossing.to);
        break;
      case TransferProtocol::kShared:
        owner_.receives_[crossing.id] = shared_receive_end(
            FERRY_TRY(transfer::SharedReader::open(device, channel, ticket, spec)), channel,
            crossing.from.find("/loop:") == std::string::npos, crossing.from);
        break;
    }
    return {};
  }

  FerryRendezvous& owner_;
  const graph::Partition& partition_;
  const std::string task_;
  const Deadline deadline_;
  std::map<std::string, std::vector<Note>> offers_;  // by peer
  std::vector<std::pair<std::string, Note>> heard_;  // from peers
};

FerryRendezvous::~FerryRendezvous() = default;

Status FerryRendezvous::open(const graph::Partition& partition, const std::string& task,
                             Deadline deadline) {
  return Opening(*this, partition, task, deadline).open();
}

SharedVariable* FerryRendezvous::shared_variable(const std::string& name) {
  const auto found = shared_.find(name);
  return found == shared_.end() ? nullptr : found->second.get();
}

bool FerryRendezvous::wait_until(InlineFunction<bool()> ready, Deadline deadline) {
  return links_.device().wait_until(std::move(ready), deadline);
}

CrossingStats FerryRendezvous::stats() const {
  CrossingStats all;
  for (const auto& end : sends_)
    if (end) all += end->stats();
  for (const auto& end : receives_)
    if (end) all += end->stats();
  return all;
}

}  // namespace ferry::runtime
