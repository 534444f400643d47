#include "ferry/interop/grpc_endpoint/hub_internal.h"
#include "ferry/interop/grpc_endpoint/link_internal.h"

namespace ferry::interop {

namespace {

// Where the peer can map them, parts of any size are copied into memory of the mailbox once, and
// used there. To register memory for one send and revoke it costs more.
constexpr std::uint64_t kCopyAlways = std::uint64_t{1} << 40;

transfer::MailboxOptions link_options(bool maps) {
  transfer::MailboxOptions options;
  options.rendezvous = Link::kRendezvous;
  if (maps) options.copy_up_to = kCopyAlways;
  return options;
}

}  // namespace

Result<std::shared_ptr<Link>> Link::open(transfer::MailRoom& room, fabric::Device& device,
                                         fabric::Channel channel, Deadline deadline) {
  std::unique_ptr<Link> link(new Link);
  link->channel_ = std::move(channel);
  link->maps_ = link->channel_.capabilities().maps_peer;
  link->mailbox_ = std::make_unique<transfer::Mailbox>(FERRY_TRY(
      transfer::Mailbox::open(room, device, link->channel_, link_options(link->maps_), deadline)));
  Hub::get().know(link.get());
  // Closing waits for the peer, and the last to let go may be any thread.
  return std::shared_ptr<Link>(link.release(), [](Link* last) { Hub::get().bury(last); });
}

Link::~Link() {
  mailbox_.reset();
  if (afterwards) afterwards();
}

PluginTraffic Link::traffic() const {
  return {client.load() ? 1U : 0U, counts.sent_bytes.load(), counts.taken_bytes.load(),
          counts.lent_bytes.load()};
}

std::string Link::report() const {
  const auto stats = mailbox_->stats();
  return fmt::format(
      "{} {} by {}: {}; {} writes of {} bytes ({} eager messages, {} rendezvous, {} copies, {} "
      "registered); {} bytes taken, {} in place, {} copied ({} messages over the budget)",
      client ? "to" : "from", peer, channel_.provider(), channel_.why(), counts.writes.load(),
      counts.sent_bytes.load(), stats.sent - stats.announced, stats.announced, stats.copies,
      stats.registered, counts.taken_bytes.load(), counts.lent_bytes.load(),
      counts.copied_bytes.load(), counts.over_budget.load());
}

}  // namespace ferry::interop
