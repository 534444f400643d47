#include "ferry/transfer/mail_hub.h"

#include <chrono>

#include "ferry/base/log.h"

namespace ferry::transfer {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kNewcomers{10};  // between two looks for them
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

std::vector<std::shared_ptr<MailHub::Peer>> MailHub::all_peers() {
  LockGuard<Mutex> guard(lock_);
  std::vector<std::shared_ptr<Peer>> all;
  all.reserve(peers_.size());
  for (const auto& [id, peer] : peers_) all.push_back(peer);
  return all;
}

void MailHub::receive_all() {
  std::vector<std::shared_ptr<Peer>> peers;
  std::vector<Mailbox*> boxes;
  for (std::uint64_t seen = 0; !stop_; handler_.tick()) {
    if (const auto now = changes_.load(); now != seen) {
      seen = now;
      peers = all_peers();
      boxes.clear();
      for (const auto& peer : peers) boxes.push_back(peer->box.get());
    }
    if (boxes.empty()) {
      std::this_thread::sleep_for(kNewcomers);
    } else if (auto ready = room_->wait_any(boxes, Deadline::after(kNewcomers))) {
      receive_one(peers[*ready]);
    }
  }
}

void MailHub::receive_one(const std::shared_ptr<Peer>& peer) {
  auto message = peer->box->receive(Deadline());
  if (message) return handler_.arrived(peer, std::move(*message));
  if (message.error().code() == Code::kDeadlineExceeded) return;
  {
    LockGuard<Mutex> guard(lock_);
    peers_.erase(peer->id);
    ++changes_;
  }
  handler_.gone(peer->id);
}

}  // namespace ferry::transfer
