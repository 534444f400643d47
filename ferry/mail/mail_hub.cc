#include "ferry/mail/mail_hub.h"

#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/base/waiting.h"

namespace ferry::mail {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAccept{100};
constexpr std::chrono::seconds kOpenBox{5};

}  // namespace

Result<std::unique_ptr<MailHub>> MailHub::open(fabric::Device& device, const MailRoomOptions& room,
                                               const MailboxOptions& box, Handler& handler) {
  std::unique_ptr<MailHub> hub(new MailHub(device, box, handler));
  hub->room_ = std::make_shared<MailRoom>(FERRY_TRY(MailRoom::open(device, room)));
  hub->acceptor_ = std::thread([raw = hub.get()] { raw->accept_all(); });
  hub->receiver_ = std::thread([raw = hub.get()] { raw->receive_all(); });
  return hub;
}

MailHub::~MailHub() {
  stop_ = true;
  device_.wake_waiters();
  if (acceptor_.joinable()) acceptor_.join();
  if (receiver_.joinable()) receiver_.join();
  LockGuard<Mutex> guard(lock_);
  peers_.clear();
}

Result<std::shared_ptr<MailHub::Peer>> MailHub::add(fabric::Channel channel, Deadline deadline) {
  auto peer = std::make_shared<Peer>();
  peer->room = room_;
  peer->channel = std::move(channel);
  peer->box = std::make_unique<Mailbox>(
      FERRY_TRY(Mailbox::open(*room_, device_, peer->channel, box_options_, deadline)));
  LockGuard<Mutex> guard(lock_);
  peer->id = ++last_;
  peers_.emplace(peer->id, peer);
  ++changes_;
  return peer;
}

Result<std::shared_ptr<MailHub::Peer>> MailHub::connect(const std::string& endpoint,
                                                        Deadline deadline) {
  auto channel = FERRY_TRY(device_.connect(endpoint, {.deadline = deadline}));
  return add(std::move(channel), deadline);
}

void MailHub::accept_all() {
  while (!stop_) {
    auto channel = device_.accept(Deadline::after(kAccept));
    if (!channel) continue;
    const auto added = add(std::move(*channel), Deadline::after(kOpenBox));
    if (!added) logger().warn("a peer that came opened no mailbox: {}", added.error().to_string());
  }
}

void MailHub::refresh_peers(Known& known) {
  if (known.changes == changes_.load()) return;
  LockGuard<Mutex> guard(lock_);
  known.changes = changes_.load();
  known.peers.clear();
  known.boxes.clear();
  for (const auto& [id, peer] : peers_) {
    known.peers.push_back(peer);
    known.boxes.push_back(peer->box.get());
  }
}

void MailHub::receive_all() {
  Known known;
  while (!stop_) {
    if (guest_ || now_ns() - guest_left_ns_ < waiting::kMailHubAway.count()) {
      std::this_thread::sleep_for(waiting::kMailHubAway / 2);
    } else {
      receive_next(known, Deadline::after(waiting::kMailHubSleep));
    }
    LockGuard<Mutex> handler(handler_lock_);
    handler_.tick();
  }
}

bool MailHub::receive_until(const std::function<bool()>& ready, Deadline deadline) {
  if (handling_ == std::this_thread::get_id() || guest_.exchange(true)) return false;
  Known known;
  // The hub's thread may have been about to take what is waited for: looks again soon.
  Nanos slice = waiting::kMailHubAway / 2;
  bool done = ready();
  for (; !done && !stop_ && !deadline.expired(); done = ready()) {
    receive_next(known, Deadline::after(std::min(slice, deadline.left())));
    slice = std::min(2 * slice, waiting::kMailHubSleep);
  }
  guest_left_ns_ = now_ns();
  guest_ = false;
  return done;
}

void MailHub::receive_next(Known& known, Deadline deadline) {
  refresh_peers(known);
  if (known.boxes.empty()) {
    std::this_thread::sleep_for(std::min(deadline.left(), waiting::kMailHubSleep));
    return;
  }
  const auto index = room_->wait_any(known.boxes, deadline);
  if (!index) return;
  LockGuard<Mutex> handler(handler_lock_);
  handling_ = std::this_thread::get_id();
  receive_one(known.peers[*index]);
  handling_ = std::thread::id();
}

void MailHub::receive_one(const std::shared_ptr<Peer>& peer) {
  auto message = peer->box->receive(Deadline());
  if (message) return handler_.arrived(peer, std::move(*message));
  if (message.error().code() == Code::kDeadlineExceeded) return;
  {
    LockGuard<Mutex> guard(lock_);
    if (peers_.erase(peer->id) == 0) return;
    ++changes_;
  }
  handler_.gone(peer->id);
}

}  // namespace ferry::mail
