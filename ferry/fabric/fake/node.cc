#include <algorithm>
#include <cstring>
#include <utility>

#include "ferry/fabric/fake/node_internal.h"

namespace ferry::fabric::fake {

Status Node::touch(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
                   Rights need, std::uint32_t peer, const std::function<void(std::byte*)>& access) {
  LockGuard guard(lock_);
  return touch_locked(remote, offset, length, need, peer, access);
}

Status Node::touch_locked(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length,
                          Rights need, std::uint32_t peer,
                          const std::function<void(std::byte*)>& access) {
  if (grants_ == nullptr) {
    return fail(Code::kUnavailable, "device {} was closed; connect again", id_.to_string());
  }
  auto grant = FERRY_TRY(grants_->check(remote, offset, length, need, peer));
  // One process: the owner's address is ours.
  access(reinterpret_cast<std::byte*>(grant.address) +
         offset);  // NOLINT: an address from the table
  return {};
}

void Node::wake() {
  LockGuard guard(lock_);
  if (loops_ == nullptr) return;
  for (auto& loop : *loops_) loop->notify();
}

Result<std::span<std::byte>> Node::lend(const RemoteRegion& remote, std::uint32_t peer,
                                        const void* user) {
  LockGuard guard(lock_);
  std::span<std::byte> bytes;
  auto note = [&](std::byte* at) { bytes = {at, static_cast<std::size_t>(remote.length)}; };
  FERRY_TRY(touch_locked(remote, 0, remote.length, remote.rights, peer, note));
  lent_.emplace(remote.key, user);
  return bytes;
}

void Node::release(const void* user) {
  std::vector<std::function<void()>> quiet;
  {
    LockGuard guard(lock_);
    std::erase_if(lent_, [user](const auto& entry) { return entry.second == user; });
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (lent_.contains(it->first)) {
        ++it;
        continue;
      }
      quiet.push_back(std::move(it->second));
      it = waiting_.erase(it);
    }
  }
  for (auto& call : quiet) call();
}

void Node::revoke(std::uint64_t key, std::function<void()> quiet) {
  {
    LockGuard guard(lock_);
    if (lent_.contains(key)) {
      waiting_.emplace(key, std::move(quiet));
      return;
    }
  }
  quiet();
}

void Node::close() {
  std::multimap<std::uint64_t, std::function<void()>> waiting;
  {
    LockGuard guard(lock_);
    grants_ = nullptr;
    loops_ = nullptr;
    lent_.clear();
    waiting.swap(waiting_);
  }
  for (auto& [key, quiet] : waiting) quiet();
}

void Link::attach(int end, Loop* loop) {
  LockGuard guard(lock_);
  ends_[static_cast<std::size_t>(end)].loop = loop;
}

void Link::detach(int end) {
  LockGuard guard(lock_);
  ends_[static_cast<std::size_t>(end)].loop = nullptr;
  wake_locked(1 - end);
}

void Link::break_up() {
  LockGuard guard(lock_);
  broken_.store(true, std::memory_order_release);
  wake_locked(0);
  wake_locked(1);
}

bool Link::peer_attached(int end) {
  LockGuard guard(lock_);
  return ends_[static_cast<std::size_t>(1 - end)].loop != nullptr;
}

bool Link::deliver(int from, std::span<const std::byte> message) {
  LockGuard guard(lock_);
  auto& inbox = ends_[static_cast<std::size_t>(1 - from)].inbox;
  if (inbox.size() >= kInbox) return false;
  inbox.emplace_back(message.begin(), message.end());
  wake_locked(1 - from);
  return true;
}

Result<std::size_t> Link::take(int end, std::span<std::byte> into) {
  LockGuard guard(lock_);
  auto& inbox = ends_[static_cast<std::size_t>(end)].inbox;
  if (inbox.empty()) return fail(Code::kNotFound, "no message has arrived");
  auto& message = inbox.front();
  if (message.size() > into.size()) {
    return fail(Code::kResourceExhausted,
                "the message has {} bytes and the buffer {}; use a larger "
                "one",
                message.size(), into.size());
  }
  if (!message.empty()) std::memcpy(into.data(), message.data(), message.size());
  std::size_t size = message.size();
  inbox.pop_front();
  wake_locked(1 - end);
  return size;
}

bool Link::has_message(int end) {
  LockGuard guard(lock_);
  return !ends_[static_cast<std::size_t>(end)].inbox.empty();
}

void Link::wake_locked(int end) {
  if (auto* loop = ends_[static_cast<std::size_t>(end)].loop) loop->notify();
}

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(std::shared_ptr<Node> node) {
  LockGuard guard(lock_);
  nodes_[node->id()] = node;
}

void Registry::remove(const DeviceId& id) {
  LockGuard guard(lock_);
  nodes_.erase(id);
}

std::shared_ptr<Node> Registry::find(const DeviceId& id) {
  LockGuard guard(lock_);
  auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : it->second;
}

std::uint64_t Registry::offer_link(const std::shared_ptr<Link>& link) {
  LockGuard guard(lock_);
  links_[next_token_] = link;
  std::erase_if(links_, [](const auto& entry) { return entry.second.expired(); });
  return next_token_++;
}

std::shared_ptr<Link> Registry::take_link(std::uint64_t token) {
  LockGuard guard(lock_);
  auto node = links_.extract(token);
  return node.empty() ? nullptr : node.mapped().lock();
}

}  // namespace ferry::fabric::fake
