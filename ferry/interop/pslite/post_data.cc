#include <chrono>

#include "ferry/interop/pslite/post_core_internal.h"

// Messages of programs, and the way to the nodes.

namespace ps {
namespace {

using ferry::Deadline;
using ferry::bootstrap::Decoder;
using ferry::bootstrap::Encoder;
using std::chrono::seconds;

constexpr seconds kFindNode{30};

}  // namespace

bool Postoffice::Core::is_own(int node) {
  const Lock lock(mu_);
  return nodes_.at(node).process == id;
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
  auto peer = hub_.connect(at.endpoint, Deadline::after(kFindNode));
  CHECK(peer) << "node " << at.process << " at " << at.endpoint << ": " << peer.error().to_string();
  const Lock lock(mu_);
  nodes_.heard_from(at.process, *peer);
  return nodes_.route(at.process);
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
  auto head = head_of(MessageKind::kData, id);
  Encoder out(head);
  put_meta(out, message);
  if (message.data.size() < 2 || message.data[0].size() < kLeastInPlace) {
    out.u8(0);
    return hub_.post(peer, head, &message);
  }
  const auto keys = keys_.of(peer->id);
  const std::lock_guard<std::mutex> in_order(keys->lock());
  const bool same = keys->send(message.data[0]);
  out.u8(same ? 1 : 0);
  if (!same) return hub_.post(peer, head, &message);
  auto rest = message;
  rest.data[0].clear();
  hub_.post(peer, head, &rest);
}

void Postoffice::Core::arrived(const PeerPtr& from, ferry::mail::Message message) noexcept {
  if (message.parts().empty()) return;
  const auto first = message.parts()[0];
  const std::vector<std::byte> head(first.begin(), first.end());
  Decoder in(head);
  const auto kind = static_cast<MessageKind>(in.u8());
  const auto sender = static_cast<int>(in.u32());
  if (sender != Meta::kEmpty) {
    const Lock lock(mu_);
    nodes_.heard_from(sender, from);
    if (kind == MessageKind::kBye) nodes_.said_bye(sender);
  }
  switch (kind) {
    case MessageKind::kData:
      return data_arrived(from, sender, in, std::move(message));
    case MessageKind::kJoin:
      return join_arrived(from, in);
    case MessageKind::kTable:
      return table_arrived(in);
    case MessageKind::kBarrier:
      return barrier_arrived(sender, in);
    case MessageKind::kBarrierDone:
      return barrier_done(in.u32());
    case MessageKind::kRefused:
      return refusal_arrived(in);
    case MessageKind::kBye:
      return;
  }
}

void Postoffice::Core::data_arrived(const PeerPtr& from, int sender, Decoder& in,
                                    ferry::mail::Message message) {
  Message got;
  get_meta(in, got.meta);
  const bool same = in.u8() != 0;
  if (!in.finish("a message of a node")) return;
  got.meta.sender = sender;
  got.meta.recver = id;
  got.data = hub_.lend_arrays(from, std::move(message));
  if (got.data.size() >= 2 && (same || got.data[0].size() >= kLeastInPlace)) {
    const auto keys = keys_.of(from->id);
    const std::lock_guard<std::mutex> lock(keys->lock());
    got.data[0] = keys->receive(got.data[0], same);
  }
  for (const auto& array : got.data) got.meta.data_size += static_cast<int>(array.size());
  customers.deliver(std::move(got), true);
}

}  // namespace ps
