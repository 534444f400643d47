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
  std::shared_ptr<ferry::transfer::MailHub::Peer> peer;
  ferry::transfer::Message message;
};

}  // namespace

Postoffice::Core::HubUse::HubUse(Core& core) : core_(core) {
  core_.hub_users_.fetch_add(1);
  allowed_ = !core_.hub_closed_;
}

bool Postoffice::Core::receive_until(const std::function<bool()>& ready) {
  const HubUse use(*this);
  return use && hub_->receive_until(ready, Deadline::after(std::chrono::milliseconds(100)));
}

std::vector<std::byte> Postoffice::Core::head_of(Kind kind) const {
  std::vector<std::byte> head;
  Encoder(head).u8(static_cast<std::uint8_t>(kind)).u32(static_cast<std::uint32_t>(id));
  return head;
}

void Postoffice::Core::say(int node, Kind kind, const std::vector<std::byte>& body) {
  const HubUse use(*this);
  CHECK(use) << "Start() was not called, or Finalize(0) was";
  auto head = head_of(kind);
  Encoder(head).raw(body);
  if (const auto peer = route_to(node)) post(peer, head, nullptr);
}

int Postoffice::Core::process_of(int node) {
  const std::lock_guard<std::mutex> lock(mu_);
  const auto entry = table_.find(node);
  CHECK(entry != table_.end()) << "there is no node " << node;
  return entry->second.process;
}

// The way by which the node has spoken to this one, or a new one.
Postoffice::Core::PeerPtr Postoffice::Core::route_to(int node) {
  std::lock_guard<std::mutex> one_at_a_time(connecting_);
  std::string endpoint;
  {
    std::unique_lock<std::mutex> lock(mu_);
    const auto at = table_.find(node);
    CHECK(at != table_.end()) << "there is no node " << node;
    node = at->second.process;
    if (const auto known = routes_.find(node); known != routes_.end()) return known->second;
    if (dead_.count(node) > 0 || left_.count(node) > 0) return nullptr;
    endpoint = at->second.endpoint;
  }
  auto peer = hub_->connect(endpoint, Deadline::after(kSend));
  CHECK(peer) << "node " << node << " at " << endpoint << ": " << peer.error().to_string();
  std::unique_lock<std::mutex> lock(mu_);
  nodes_[(*peer)->id] = node;
  return routes_.emplace(node, *peer).first->second;
}

// Large arrays go through registered memory, which the other end uses where it is if it can.
ferry::Status Postoffice::Core::try_post(const PeerPtr& peer, const std::vector<std::byte>& head,
                                         const Message* data) {
  const auto deadline = Deadline::after(kSend);
  std::vector<std::span<const std::byte>> parts = {head};
  std::size_t bytes = in_lines(head.size());
  if (data != nullptr)
    for (const auto& array : data->data) {
      parts.push_back(std::as_bytes(std::span(array.data(), array.size())));
      bytes += in_lines(array.size());
    }
  ferry::transfer::MailBuffer buffer;
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

void Postoffice::Core::post(const PeerPtr& peer, const std::vector<std::byte>& head,
                            const Message* data) {
  const auto sent = try_post(peer, head, data);
  if (!sent) LOG(WARNING) << "a message did not get through: " << sent.error().to_string();
}

void Postoffice::Core::send(const Message& message) {
  const auto& meta = message.meta;
  CHECK_NE(meta.recver, Meta::kEmpty);
  const HubUse use(*this);
  if (!use) {
    CHECK(!meta.request) << "a request is sent before Start() or after Finalize(0)";
    return;  // nobody waits for the answer any more
  }
  if (meta.recver == id || (counted_ && process_of(meta.recver) == id)) {
    auto mine = message;
    mine.meta.sender = id;
    return deliver(std::move(mine), false);
  }
  auto head = head_of(Kind::kData);
  Encoder out(head);
  for (const int value : {meta.head, meta.app_id, meta.customer_id, meta.timestamp, meta.priority})
    out.u32(static_cast<std::uint32_t>(value));
  out.u8(static_cast<std::uint8_t>((meta.request ? 1 : 0) | (meta.push ? 2 : 0) |
                                   (meta.pull ? 4 : 0) | (meta.simple_app ? 8 : 0)));
  out.string(meta.body);
  out.u8(static_cast<std::uint8_t>(message.data.size()));
  for (std::size_t each = 0; each < message.data.size(); ++each)
    out.u8(static_cast<std::uint8_t>(each < meta.data_type.size() ? meta.data_type[each] : OTHER));
  const auto peer = route_to(meta.recver);
  if (peer == nullptr) {
    LOG(WARNING) << "nothing is sent to node " << meta.recver << ", which is gone";
    return;
  }
  if (message.data.size() < 2 || message.data[0].size() < kInLine) {
    out.u8(0);
    return post(peer, head, &message);
  }
  const auto keys = keys_of(peer->id);
  const std::lock_guard<std::mutex> in_order(keys->sending);
  const bool same = same_keys(*keys, message.data[0]);
  out.u8(same ? 1 : 0);
  if (!same) return post(peer, head, &message);
  auto rest = message;
  rest.data[0].clear();
  post(peer, head, &rest);
}

std::shared_ptr<Postoffice::Core::Keys> Postoffice::Core::keys_of(std::uint64_t peer) {
  const std::lock_guard<std::mutex> lock(mu_);
  auto& keys = keys_[peer];
  if (keys == nullptr) keys = std::make_shared<Keys>();
  return keys;
}

// Whether the peer has them already; from now on it has. Arrays of the program's may have changed
// where they are, those that were received do not.
bool Postoffice::Core::same_keys(Keys& keys, const SArray<char>& array) {
  const bool received = array.data() == keys.received.data();
  const bool known = received && array.data() == keys.sent_array.data();
  if (array.size() == keys.sent.size() &&
      (known || std::memcmp(array.data(), keys.sent.data(), array.size()) == 0)) {
    if (received) keys.sent_array = array;
    return true;
  }
  keys.sent.assign(array.begin(), array.end());
  keys.sent_array = received ? array : SArray<char>();
  return false;
}

void Postoffice::Core::arrived(const PeerPtr& from, ferry::transfer::Message message) noexcept {
  if (message.parts().empty()) return;
  const auto first = message.parts()[0];
  const std::vector<std::byte> head(first.begin(), first.end());
  Decoder in(head);
  const auto kind = static_cast<Kind>(in.u8());
  const auto sender = static_cast<int>(in.u32());
  if (sender != Meta::kEmpty) {
    std::unique_lock<std::mutex> lock(mu_);
    nodes_.emplace(from->id, sender);
    routes_.emplace(sender, from);
    if (kind == Kind::kBye) left_.insert(sender);
  }
  switch (kind) {
    case Kind::kData:
      return data_arrived(from, sender, in, std::move(message));
    case Kind::kJoin:
      return joined(from, in);
    case Kind::kTable:
      return learn_table(in);
    case Kind::kBarrier: {
      const auto customer_id = static_cast<int>(in.u32());
      const auto group = static_cast<int>(in.u32());
      const auto request = in.u32();
      if (!in.ok() || group < 1 || group > 7) return;
      return count_barrier(sender, customer_id, group, request);
    }
    case Kind::kBarrierDone:
      return barrier_done(in.u32());
    case Kind::kRefused:
      return refused(in);
    case Kind::kBye:
      return;
  }
}

void Postoffice::Core::data_arrived(const PeerPtr& from, int sender, Decoder& in,
                                    ferry::transfer::Message message) {
  Message got;
  auto& meta = got.meta;
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
    const auto keys = keys_of(from->id);
    const std::lock_guard<std::mutex> lock(keys->sending);
    if (!same) {
      keys->received = SArray<char>();
      keys->received.CopyFrom(got.data[0]);
    }
    got.data[0] = keys->received;
  }
  for (const auto& array : got.data) meta.data_size += static_cast<int>(array.size());
  held->device = device_;
  held->peer = from;
  held->message = std::move(message);
  held.reset();
  deliver(std::move(got), true);
}

Customer* Postoffice::Core::customer_for(const Meta& meta) const {
  // Servers and the scheduler have one customer for each application, whoever asks.
  const int customer_id = role == "worker" ? meta.customer_id : meta.app_id;
  const auto found = customers_.find({meta.app_id, customer_id});
  return found == customers_.end() ? nullptr : found->second;
}

// With a single customer, whoever has received a message handles it: no other thread needs to be
// woken. With several, each has its thread, since one may wait for what another does.
void Postoffice::Core::deliver(Message message, bool at_once) {
  std::unique_lock<std::mutex> lock(customers_mu_);
  auto* customer = customer_for(message.meta);
  if (customer == nullptr) {
    waiting_.push_back(std::move(message));
    return;
  }
  const bool alone = at_once && !several_;
  ++given_[customer];
  lock.unlock();
  customer->Accept(message, alone);
  lock.lock();
  if (--given_[customer] == 0) given_.erase(customer);
  customers_changed_.notify_all();
}

void Postoffice::Core::add(Customer* customer) {
  std::unique_lock<std::mutex> lock(customers_mu_);
  customers_[{customer->app_id(), customer->customer_id()}] = customer;
  if (customers_.size() > 1) several_ = true;
  customers_changed_.notify_all();
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    if (customer_for(each->meta) != customer) {
      ++each;
      continue;
    }
    customer->Accept(*each);
    each = waiting_.erase(each);
  }
}

void Postoffice::Core::remove(Customer* customer) {
  std::unique_lock<std::mutex> lock(customers_mu_);
  const std::pair key(customer->app_id(), customer->customer_id());
  if (const auto found = customers_.find(key);
      found != customers_.end() && found->second == customer)
    customers_.erase(found);
  customers_changed_.wait(lock, [&] { return given_.count(customer) == 0; });
  const bool last = std::none_of(customers_.begin(), customers_.end(), [&](const auto& each) {
    return each.first.second == customer->customer_id();
  });
  lock.unlock();
  if (last) customer_done(customer->customer_id());
}

Customer* Postoffice::Core::find(int app_id, int customer_id, int timeout) {
  std::unique_lock<std::mutex> lock(customers_mu_);
  const std::pair key(app_id, customer_id);
  (void)customers_changed_.wait_for(lock, seconds(timeout),
                                    [&] { return customers_.count(key) > 0; });
  const auto found = customers_.find(key);
  return found == customers_.end() ? nullptr : found->second;
}

}  // namespace ps
