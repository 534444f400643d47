#include "ferry/base/log.h"
#include "ferry/mail/calibrate.h"
#include "ferry/mail/find_tuning.h"
#include "ferry/mail/mail_options_internal.h"
#include "ferry/mail/mail_tuning_internal.h"
#include "ferry/mail/tuning_cache.h"

namespace ferry::mail {

namespace {

constexpr auto kLeastTime = std::chrono::seconds(2);  // before the deadline of open()
constexpr auto kParting = std::chrono::seconds(2);
constexpr std::size_t kMemoryToMeasure = std::size_t{32} << 20;

bool leaves_open(const MailboxOptions& options) {
  return !options.eager_threshold || !options.copy_up_to || !options.chunk_bytes ||
         !options.chunks_in_flight || !options.spin;
}

// One end's part in finding out.
class Settling {
 public:
  Settling(fabric::Device& device, fabric::Channel& channel, std::string folder, bool may_measure,
           Deadline deadline)
      : device_(device),
        channel_(channel),
        cache_(std::move(folder)),
        path_(TuningPath::of(channel)),
        may_measure_(may_measure),
        deadline_(deadline) {}

  // Fills `early` if the peer does not take part.
  Result<FoundTuning> settle(MailOpening& early) {
    auto entry = cache_.load(path_);
    TuningOffer mine;
    if (entry) {
      mine = {TuningOffer::State::kHas, entry->found.tuning};
    } else if (may_measure_ && can_measure()) {
      mine.state = TuningOffer::State::kWould;
    }
    auto theirs = FERRY_TRY(exchange(mine, early));
    if (entry) return FoundTuning{entry->found.tuning, TuningSource::kKept};
    if (cache_.folder().empty()) return defaults();
    return agree(mine, theirs);
  }

 private:
  bool can_measure() {
    return deadline_.left() >= kLeastTime && has_turn() &&
           device_.allocate(kMemoryToMeasure).has_value();
  }

  // Calibrations of one host do not disturb each other: the lock is its end's that leads.
  bool has_turn() {
    if (!leads_calibration(device_, channel_) && channel_.peer_host() == fabric::host_id())
      return true;
    auto lock = cache_.try_lock();
    if (lock) {
      lock_ = *std::move(lock);
    } else if (lock.error().code() != Code::kUnavailable) {
      logger().warn("the path to {} is not measured, since the result could not be kept: {}",
                    channel_.peer_endpoint(), lock.error().message());
    }
    return static_cast<bool>(lock_);
  }

  Result<TuningOffer> exchange(const TuningOffer& mine, MailOpening& early) {
    auto wire = mine.to_wire();
    auto sent = channel_.send(wire, {.deadline = deadline_});
    auto opening = receive_opening(channel_, deadline_);
    auto away = sent.wait();
    FERRY_TRY(std::move(away));
    auto theirs = FERRY_TRY(std::move(opening));
    if (is_offer(theirs)) return TuningOffer::from_wire(theirs);
    early = std::move(theirs);
    return TuningOffer();
  }

  Result<FoundTuning> agree(const TuningOffer& mine, const TuningOffer& theirs) {
    if (theirs.state == TuningOffer::State::kHas) {
      keep({theirs.tuning, {}});
      return FoundTuning{theirs.tuning, TuningSource::kKept};
    }
    if (mine.state != TuningOffer::State::kWould || theirs.state != TuningOffer::State::kWould)
      return defaults();
    const auto found = FERRY_TRY(calibrate(device_, channel_, {}, deadline_));
    keep(found);
    return FoundTuning{found.tuning, TuningSource::kMeasured};
  }

  FoundTuning defaults() const {
    return {default_tuning(channel_.provider()), TuningSource::kDefault};
  }

  void keep(const Calibration& found) {
    if (auto stored = cache_.store(path_, found); !stored)
      logger().warn("the tuning of the path to {} is not kept: {}", channel_.peer_endpoint(),
                    stored.error().message());
  }

  fabric::Device& device_;
  fabric::Channel& channel_;
  const TuningCache cache_;
  const TuningPath path_;
  const bool may_measure_;
  const Deadline deadline_;
  Fd lock_;
};

// The end that is through first must not take the channel away from the other.
void part_from_peer(fabric::Channel& channel) {
  const auto limit = Deadline::after(kParting);
  (void)channel.send({}, {.deadline = limit}).wait();
  std::byte none{};
  (void)channel.receive({&none, 1}, limit);
}

std::string folder_or_default(const std::string& folder) {
  return folder.empty() ? TuningCache::default_folder() : folder;
}

}  // namespace

Result<MailStart> settle_tuning(fabric::Device& device, fabric::Channel& channel,
                                const MailboxOptions& options, const MailRoomOptions& room,
                                Deadline deadline) {
  MailStart start;
  start.tuning = default_tuning(channel.provider());
  auto folder = folder_or_default(room.tuning_folder);
  if (room.tuning != TuningUse::kOff && !folder.empty() && leaves_open(options)) {
    Settling settling(device, channel, std::move(folder), room.tuning == TuningUse::kMeasure,
                      deadline);
    const auto found = FERRY_TRY(settling.settle(start.early_hello));
    start.tuning = found.tuning;
    start.source = found.source;
  }
  start.tuning = with_options(start.tuning, options, device);
  return start;
}

Result<FoundTuning> find_tuning(fabric::Device& device, fabric::Channel& channel, TuningUse use,
                                const std::string& folder, Deadline deadline) {
  // Without a folder this end has nothing and would not measure, and says so.
  const bool may_measure = use == TuningUse::kMeasure && !folder_or_default(folder).empty();
  Settling settling(device, channel, use == TuningUse::kOff ? "" : folder_or_default(folder),
                    may_measure, deadline);
  MailOpening nothing;
  auto found = settling.settle(nothing);
  if (found) part_from_peer(channel);
  return found;
}

FoundTuning kept_tuning(const fabric::Channel& channel, const std::string& folder) {
  const auto entry = TuningCache(folder_or_default(folder)).load(TuningPath::of(channel));
  if (entry) return {entry->found.tuning, TuningSource::kKept};
  return {default_tuning(channel.provider()), TuningSource::kDefault};
}

}  // namespace ferry::mail
