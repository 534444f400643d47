#include <algorithm>
#include <bit>

#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/link_internal.h"

namespace ferry::interop {

namespace {

// Where the peer can map them, parts of any size are copied into memory of the mailbox once, and
// used there. To register memory for one send and revoke it costs more.
constexpr std::uint64_t kCopyAlways = std::uint64_t{1} << 40;

// Large messages that may be under way; those that are lent count until they are let go of.
constexpr std::uint32_t kRendezvous = 64;
constexpr std::uint32_t kMostLentMessages = kRendezvous * 3 / 4;

mail::MailboxOptions link_options(bool maps, const LinkThresholds& set) {
  mail::MailboxOptions options;
  options.rendezvous = kRendezvous;
  options.send_bytes = PluginOptions::get().memory;
  options.most_bytes = Link::most_in_a_message();
  const auto& plugin = PluginOptions::get();
  if (maps || !plugin.zero_copy) options.copy_up_to = kCopyAlways;
  if (!plugin.pipelining) {
    options.chunk_bytes = mail::TuningLimits::kMostChunk;
    options.chunks_in_flight = 1;
  }
  options.eager_threshold = set.eager_threshold;
  if (set.copy_up_to) options.copy_up_to = set.copy_up_to;
  if (set.chunk_bytes) options.chunk_bytes = set.chunk_bytes;
  if (set.chunks_in_flight) options.chunks_in_flight = set.chunks_in_flight;
  return options;
}

}  // namespace

Result<std::unique_ptr<Link>> Link::open(mail::MailRoom& room, fabric::Device& device,
                                         fabric::Channel channel, const LinkThresholds& set,
                                         Deadline deadline) {
  std::unique_ptr<Link> link(new Link(room));
  link->channel_ = std::move(channel);
  link->maps_ = link->channel_.capabilities().maps_peer;
  link->set_ = set;
  link->mailbox_ = std::make_unique<mail::Mailbox>(FERRY_TRY(
      mail::Mailbox::open(room, device, link->channel_, link_options(link->maps_, set), deadline)));
  return link;
}

Link::~Link() {
  mailbox_.reset();
  if (afterwards) afterwards();
}

std::uint64_t Link::most_in_a_message() { return PluginOptions::get().memory / 4; }

// Where the peer's memory is not mapped, messages lie in memory that all connections share.
bool Link::has_memory_to_lend(std::uint64_t bytes) const {
  const auto most = PluginOptions::get().memory / 2;
  return lent_messages_.load(std::memory_order_relaxed) < kMostLentMessages &&
         lent_.load(std::memory_order_relaxed) + bytes <= most &&
         (maps_ || room_.bytes_in_use() <= most);
}

bool Link::lend(std::uint64_t bytes) {
  if (has_memory_to_lend(bytes)) {
    lent_.fetch_add(bytes, std::memory_order_relaxed);
    lent_messages_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (counts.over_budget.fetch_add(1, std::memory_order_relaxed) == 0)
    logger().info("the program holds {} messages of {} bytes from {}: further ones are copied",
                  lent_messages_.load(), lent_.load(), peer);
  return false;
}

void Link::take_back(std::uint64_t bytes) {
  lent_.fetch_sub(bytes, std::memory_order_relaxed);
  lent_messages_.fetch_sub(1, std::memory_order_relaxed);
}

void Link::note_pieces(std::uint64_t bytes, const Error& why) {
  counts.piece_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (counts.in_pieces.fetch_add(1, std::memory_order_relaxed) != 0) return;
  logger().warn("a message of {} bytes to {} is copied in small pieces: {}", bytes, peer,
                why.message());
  LockGuard<Mutex> guard(pieces_lock_);
  why_pieces_ = why.message();
}

void SizeCounts::add(std::uint64_t bytes) {
  const auto at = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes)), kMost);
  counts_[at == 0 ? 0 : at - 1].fetch_add(1, std::memory_order_relaxed);
}

std::string SizeCounts::to_string() const {
  std::string text;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const auto count = counts_[i].load(std::memory_order_relaxed);
    const char* const units[] = {"", "K", "M", "G", "T"};
    if (count != 0) text += fmt::format(" {}{}:{}", 1 << i % 10, units[i / 10], count);
  }
  return text;
}

PluginTraffic Link::traffic() const {
  return {client.load() ? 1U : 0U, counts.sent_bytes.load(), counts.taken_bytes.load(),
          counts.lent_bytes.load()};
}

bool Link::lacks_tuning() const {
  return mailbox_->tuning_source() == mail::TuningSource::kDefault && !set_.sets_all();
}

void Link::retune(const mail::FoundTuning& found) {
  if (auto done = mailbox_->retune(found.tuning, found.source); !done)
    logger().warn("what was measured for {} is not used: {}", peer, done.error().message());
}

// "eager up to 8192 bytes (kept), ...": the values in effect, and who has chosen each.
std::string Link::report_thresholds() const {
  const auto tuning = mailbox_->tuning();
  const auto source = name_of(mailbox_->tuning_source());
  const auto of = [&](bool set) { return set ? std::string_view("set") : source; };
  const bool always = tuning.copy_up_to == kCopyAlways;
  return fmt::format(
      "; eager up to {} bytes ({}), copied {} ({}), chunks of {} bytes ({}), {} in flight ({})",
      tuning.eager_threshold, of(set_.eager_threshold.has_value()),
      always ? "always" : fmt::format("up to {} bytes", tuning.copy_up_to),
      always ? "default" : of(set_.copy_up_to.has_value()), tuning.chunk_bytes,
      of(set_.chunk_bytes.has_value()), tuning.chunks_in_flight,
      of(set_.chunks_in_flight.has_value()));
}

std::string Link::report() const {
  const auto stats = mailbox_->stats();
  auto text = fmt::format(
      "{} {} by {}: {}; {} writes of {} bytes ({} eager messages, {} rendezvous, {} copies of {} "
      "bytes, {} "
      "registered); {} bytes taken, {} in place, {} copied ({} messages over the budget)",
      client ? "to" : "from", peer, channel_.provider(), channel_.why(), counts.writes.load(),
      counts.sent_bytes.load(), stats.sent - stats.announced, stats.announced, stats.copies,
      stats.copied_bytes, stats.registered, counts.taken_bytes.load(), counts.lent_bytes.load(),
      counts.copied_bytes.load(), counts.over_budget.load());
  text += fmt::format("; writes by size{}; taken by size{}", counts.sent_sizes.to_string(),
                      counts.taken_sizes.to_string());
  text += report_thresholds();
  if (const auto messages = counts.in_pieces.load(); messages != 0) {
    LockGuard<Mutex> guard(pieces_lock_);
    text += fmt::format("; {} messages of {} bytes sent in small pieces, the first because {}",
                        messages, counts.piece_bytes.load(), why_pieces_);
  }
  return text;
}

}  // namespace ferry::interop
