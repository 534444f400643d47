#include <chrono>
#include <cstdlib>
#include <thread>

#include "ferry/interop/pslite/post_hub_internal.h"
#include "ferry/mail/wait_spin.h"

namespace ps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kFindScheduler{60};
constexpr seconds kRefused{5};  // how long a scheduler with another secret is asked again

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
