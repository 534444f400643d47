#include <cstring>

#include "ferry/interop/pslite/known_keys_internal.h"

namespace ps {

// Arrays of the program's may have changed where they are, those that were received do not.
bool KnownKeys::send(const SArray<char>& keys) {
  const bool received = keys.data() == received_.data();
  const bool known = received && keys.data() == sent_array_.data();
  if (keys.size() == sent_.size() &&
      (known || std::memcmp(keys.data(), sent_.data(), keys.size()) == 0)) {
    if (received) sent_array_ = keys;
    return true;
  }
  sent_.assign(keys.begin(), keys.end());
  sent_array_ = received ? keys : SArray<char>();
  return false;
}

const SArray<char>& KnownKeys::receive(const SArray<char>& keys, bool same) {
  if (!same) {
    received_ = SArray<char>();
    received_.CopyFrom(keys);
  }
  return received_;
}

std::shared_ptr<KnownKeys> KnownKeysOfPeers::of(std::uint64_t peer) {
  const std::lock_guard<std::mutex> lock(mu_);
  auto& keys = peers_[peer];
  if (keys == nullptr) keys = std::make_shared<KnownKeys>();
  return keys;
}

void KnownKeysOfPeers::erase(std::uint64_t peer) {
  const std::lock_guard<std::mutex> lock(mu_);
  peers_.erase(peer);
}

void KnownKeysOfPeers::clear() {
  const std::lock_guard<std::mutex> lock(mu_);
  peers_.clear();
}

}  // namespace ps
