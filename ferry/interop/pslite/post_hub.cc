#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>

#include "ferry/interop/pslite/node_message_internal.h"
#include "ferry/interop/pslite/post_hub_internal.h"
#include "ferry/mail/wait_spin.h"

namespace ps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kFindScheduler{60};
constexpr seconds kRefused{5};  // how long a scheduler with another secret is asked again
constexpr seconds kPost{30};
constexpr std::size_t kLine = 64;

std::size_t in_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// What an array that lies in a message keeps.
struct Held {
  std::shared_ptr<ferry::fabric::Device> device;
  PostHub::PeerPtr peer;
  ferry::mail::Message message;
};

}  // namespace

void PostHub::open(const Settings& settings, const std::string& secret, Hub::Handler& handler) {
  ferry::fabric::Options options;
  options.listen = settings.listen;
  options.provider = settings.provider;
  options.secret = secret;
  if (!settings.spin.empty())
    options.spin = ferry::mail::spin_of_user(std::strtod(settings.spin.c_str(), nullptr));
  options.arena_bytes = std::size_t{16} << 20;
  auto device = ferry::fabric::Device::open(options);
  CHECK(device) << device.error().to_string();
  device_ = std::make_shared<ferry::fabric::Device>(std::move(*device));
  auto hub = Hub::open(*device_, {.tuning = ferry::mail::TuningUse::kCached}, {}, handler);
  CHECK(hub) << hub.error().to_string();
  hub_ = std::move(*hub);
  closed_ = false;
}

void PostHub::open_scheduler(const Settings& settings, Hub::Handler& handler) {
  if (!settings.secret.empty()) return open(settings, settings.secret, handler);
  auto secret = JobSecret::create(settings.root);
  CHECK(secret) << secret.error().to_string();
  open(settings, secret->text(), handler);
  const auto published = secret->publish();
  CHECK(published) << published.error().to_string();
  secret_.emplace(std::move(*secret));
}

PostHub::PeerPtr PostHub::connect_scheduler(const Settings& settings, Hub::Handler& handler) {
  const auto deadline = ferry::Deadline::after(kFindScheduler);
  auto refused_until = deadline;
  bool was_refused = false;
  std::string used;
  ferry::Result<PeerPtr> peer = ferry::fail(ferry::Code::kUnavailable, "nobody was asked");
  for (;;) {
    const auto secret = settings.secret.empty() ? JobSecret::find(settings.root)
                                                : ferry::Result<std::string>(settings.secret);
    if (!secret) {
      peer = tl::unexpected(secret.error());
    } else {
      if (*secret != used) {
        close();
        open(settings, *secret, handler);
        used = *secret;
        was_refused = false;
      }
      peer = hub_->connect(settings.root, deadline);
    }
    if (peer) break;
    const bool refused = peer.error().code() == ferry::Code::kUnauthenticated;
    if (refused && !was_refused) refused_until = ferry::Deadline::after(kRefused);
    was_refused = was_refused || refused;
    if (deadline.expired() || (refused && refused_until.expired())) break;
    std::this_thread::sleep_for(milliseconds(50));
  }
  CHECK(peer) << "the scheduler at " << settings.root << ": " << peer.error().to_string();
  return *peer;
}

// Large arrays go through registered memory, which the other end uses where it is if it can.
ferry::Status PostHub::try_post(const PeerPtr& peer, const std::vector<std::byte>& head,
                                const Message* data) {
  const auto deadline = ferry::Deadline::after(kPost);
  std::vector<std::span<const std::byte>> parts = {head};
  std::size_t bytes = in_lines(head.size());
  if (data != nullptr)
    for (const auto& array : data->data) {
      parts.push_back(std::as_bytes(std::span(array.data(), array.size())));
      bytes += in_lines(array.size());
    }
  ferry::mail::MailBuffer buffer;
  if (bytes > kLeastInPlace) {
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

void PostHub::post(const PeerPtr& peer, const std::vector<std::byte>& head, const Message* data) {
  const auto sent = try_post(peer, head, data);
  if (!sent) LOG(WARNING) << "a message did not get through: " << sent.error().to_string();
}

std::vector<SArray<char>> PostHub::lend_arrays(const PeerPtr& peer,
                                               ferry::mail::Message message) const {
  std::vector<SArray<char>> arrays;
  const auto held = std::make_shared<Held>();
  for (const auto part : message.parts().subspan(1)) {
    auto& array = arrays.emplace_back();
    auto* bytes = const_cast<char*>(reinterpret_cast<const char*>(part.data()));
    const bool stays =
        part.size() >= kLeastInPlace && reinterpret_cast<std::uintptr_t>(bytes) % 16 == 0;
    if (stays)
      array.reset(bytes, part.size(), [held](char*) {});
    else
      array.CopyFrom(bytes, part.size());
  }
  held->device = device_;
  held->peer = peer;
  held->message = std::move(message);
  return arrays;
}

bool PostHub::receive_until(const std::function<bool()>& ready) {
  const Use use(*this);
  return use && hub_->receive_until(ready, ferry::Deadline::after(milliseconds(100)));
}

void PostHub::close() {
  closed_ = true;
  while (users_ > 0) std::this_thread::sleep_for(milliseconds(1));
  secret_.reset();  // before the port
  hub_.reset();
  device_.reset();
}

}  // namespace ps
