#include <algorithm>
#include <chrono>
#include <cstring>

#include "ferry/interop/pslite/post_core_internal.h"

// Messages between nodes. The first part says what it is; the others are arrays.

namespace ps {
namespace {

using ferry::Deadline;
using ferry::bootstrap::Decoder;
using ferry::bootstrap::Encoder;
using std::chrono::seconds;

constexpr seconds kSend{30};
constexpr std::size_t kMostBody = std::size_t{64} << 20;
constexpr std::size_t kInLine = 4096;  // smaller messages are copied by the mailbox anyway
constexpr std::size_t kLine = 64;

std::size_t in_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// What an array that lies in a message keeps.
struct Held {
  std::shared_ptr<ferry::fabric::Device> device;
  std::shared_ptr<ferry::mail::MailHub::Peer> peer;
  ferry::mail::Message message;
};

// What a message says, but for who sends it and whether its keys are those of the one before.
void put_meta(Encoder& out, const Message& message) {
  const auto& meta = message.meta;
  for (const int value : {meta.head, meta.app_id, meta.customer_id, meta.timestamp, meta.priority})
    out.u32(static_cast<std::uint32_t>(value));
  out.u8(static_cast<std::uint8_t>((meta.request ? 1 : 0) | (meta.push ? 2 : 0) |
                                   (meta.pull ? 4 : 0) | (meta.simple_app ? 8 : 0)));
  out.string(meta.body);
  out.u8(static_cast<std::uint8_t>(message.data.size()));
  for (std::size_t each = 0; each < message.data.size(); ++each)
    out.u8(static_cast<std::uint8_t>(each < meta.data_type.size() ? meta.data_type[each] : OTHER));
}

void get_meta(Decoder& in, Meta& meta) {
  for (int* value : {&meta.head, &meta.app_id, &meta.customer_id, &meta.timestamp, &meta.priority})
    *value = static_cast<int>(in.u32());
  const auto flags = in.u8();
  meta.request = (flags & 1) != 0;
  meta.push = (flags & 2) != 0;
  meta.pull = (flags & 4) != 0;
  meta.simple_app = (flags & 8) != 0;
  meta.body = in.string(kMostBody);
  const auto arrays = in.u8();
  for (int each = 0; each < arrays; ++each)
    meta.data_type.push_back(static_cast<DataType>(std::min<int>(in.u8(), OTHER)));
}

}  // namespace

// Whether the node is a name of this process.
bool Postoffice::Core::is_own(int node) {
  const Lock lock(mu_);
  return nodes_.at(node).process == id;
}

Postoffice::Core::Bytes Postoffice::Core::head_of(Kind kind) const {
  Bytes head;
  Encoder(head).u8(static_cast<std::uint8_t>(kind)).u32(static_cast<std::uint32_t>(id));
  return head;
}

Postoffice::Core::PeerPtr Postoffice::Core::route_to(int node) {
  const std::lock_guard<std::mutex> one_at_a_time(connecting_);
  NodeTable::Entry at;
  {
    const Lock lock(mu_);
    at = nodes_.at(node);
    if (const auto known = nodes_.route(at.process)) return known;
    if (nodes_.is_gone(at.process)) return nullptr;
  }
  auto peer = hub_.connect(at.endpoint, Deadline::after(kSend));
  CHECK(peer) << "node " << at.process << " at " << at.endpoint << ": " << peer.error().to_string();
  const Lock lock(mu_);
  nodes_.heard_from(at.process, *peer);
  return nodes_.route(at.process);
}

// Large arrays go through registered memory, which the other end uses where it is if it can.
ferry::Status Postoffice::Core::try_post(const PeerPtr& peer, const Bytes& head,
                                         const Message* data) {
  const auto deadline = Deadline::after(kSend);
  std::vector<std::span<const std::byte>> parts = {head};
  std::size_t bytes = in_lines(head.size());
  if (data != nullptr)
    for (const auto& array : data->data) {
      parts.push_back(std::as_bytes(std::span(array.data(), array.size())));
      bytes += in_lines(array.size());
    }
  ferry::mail::MailBuffer buffer;
  if (bytes > kInLine) {
    auto room = peer->box->allocate(bytes, deadline);
    CHECK(room) << "no memory for a message of " << bytes << " bytes: " << room.error().to_string();
    buffer = std::move(*room);
    std::size_t at = 0;
    for (auto& part : parts) {
      const auto to = buffer.bytes().subspan(at, part.size());
      if (!part.empty()) std::memcpy(to.data(), part.data(), part.size());
      at += in_lines(part.size());
      part = to;
    }
    auto sending = peer->box->send(parts, deadline);
    return sending.poll() ? sending.wait() : ferry::Status();
  }
  return peer->box->send_and_wait(parts, deadline);
}

void Postoffice::Core::post(const PeerPtr& peer, const Bytes& head, const Message* data) {
  const auto sent = try_post(peer, head, data);
  if (!sent) LOG(WARNING) << "a message did not get through: " << sent.error().to_string();
}

void Postoffice::Core::send(const Message& message) {
  const auto& meta = message.meta;
  CHECK_NE(meta.recver, Meta::kEmpty);
  const PostHub::Use use(hub_);
  if (!use) {
    CHECK(!meta.request) << "a request is sent before Start() or after Finalize(0)";
    return;  // nobody waits for the answer any more
  }
  if (meta.recver == id || (counted_ && is_own(meta.recver))) {
    auto mine = message;
    mine.meta.sender = id;
    return customers.deliver(std::move(mine), false);
  }
  const auto peer = route_to(meta.recver);
  if (peer == nullptr) {
    LOG(WARNING) << "nothing is sent to node " << meta.recver << ", which is gone";
    return;
  }
  auto head = head_of(Kind::kData);
  Encoder out(head);
  put_meta(out, message);
  if (message.data.size() < 2 || message.data[0].size() < kInLine) {
    out.u8(0);
    return post(peer, head, &message);
  }
  const auto keys = keys_.of(peer->id);
  const std::lock_guard<std::mutex> in_order(keys->lock());
  const bool same = keys->send(message.data[0]);
  out.u8(same ? 1 : 0);
  if (!same) return post(peer, head, &message);
  auto rest = message;
  rest.data[0].clear();
  post(peer, head, &rest);
}

void Postoffice::Core::arrived(const PeerPtr& from, ferry::mail::Message message) noexcept {
  if (message.parts().empty()) return;
  const auto first = message.parts()[0];
  const std::vector<std::byte> head(first.begin(), first.end());
  Decoder in(head);
  const auto kind = static_cast<Kind>(in.u8());
  const auto sender = static_cast<int>(in.u32());
  if (sender != Meta::kEmpty) {
    const Lock lock(mu_);
    nodes_.heard_from(sender, from);
    if (kind == Kind::kBye) nodes_.said_bye(sender);
  }
  switch (kind) {
    case Kind::kData:
      return data_arrived(from, sender, in, std::move(message));
    case Kind::kJoin:
      return join_arrived(from, in);
    case Kind::kTable:
      return table_arrived(in);
    case Kind::kBarrier:
      return barrier_arrived(sender, in);
    case Kind::kBarrierDone:
      return barrier_done(in.u32());
    case Kind::kRefused:
      return refusal_arrived(in);
    case Kind::kBye:
      return;
  }
}

void Postoffice::Core::data_arrived(const PeerPtr& from, int sender, Decoder& in,
                                    ferry::mail::Message message) {
  Message got;
  auto& meta = got.meta;
  get_meta(in, meta);
  const bool same = in.u8() != 0;
  meta.sender = sender;
  meta.recver = id;
  if (!in.finish("a message of a node")) return;
  const auto parts = message.parts().subspan(1);
  auto held = std::make_shared<Held>();
  for (const auto part : parts) {
    auto& array = got.data.emplace_back();
    auto* bytes = const_cast<char*>(reinterpret_cast<const char*>(part.data()));
    // Where it lies well it stays; the message is let go of with the last array.
    const bool stays = part.size() >= kInLine && reinterpret_cast<std::uintptr_t>(bytes) % 16 == 0;
    if (stays)
      array.reset(bytes, part.size(), [held](char*) {});
    else
      array.CopyFrom(bytes, part.size());
  }
  if (got.data.size() >= 2 && (same || got.data[0].size() >= kInLine)) {
    const auto keys = keys_.of(from->id);
    const std::lock_guard<std::mutex> lock(keys->lock());
    got.data[0] = keys->receive(got.data[0], same);
  }
  for (const auto& array : got.data) meta.data_size += static_cast<int>(array.size());
  held->device = hub_.device();
  held->peer = from;
  held->message = std::move(message);
  held.reset();
  customers.deliver(std::move(got), true);
}

}  // namespace ps
