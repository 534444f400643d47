// Data path.
#include "ferry/fabric/channel.h"

#include "ferry/base/waiting.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/batch_internal.h"
#include "ferry/fabric/channel_core_internal.h"

namespace ferry::fabric {

namespace {

Transfer refused(Request& request, Error error) {
  if (request.callback) request.callback(tl::unexpected<Error>(error));
  return Transfer::failed(std::move(error));
}

Status closed() { return fail(Code::kFailedPrecondition, "the channel is closed; connect again"); }

bool fits(const RemoteRegion& remote, std::uint64_t offset, std::uint64_t length, Rights need) {
  return allows(remote.rights, need) && offset <= remote.length && length <= remote.length - offset;
}

bool fits(const Request& request, Rights need) {
  return fits(request.remote, request.offset, request.length, need);
}

// What the caller can be told without asking the peer: why it does not fit.
Status check(const Request& request, Rights need) {
  if (!allows(request.remote.rights, need))
    return fail(Code::kPermissionDenied, "the grant allows {:#x}, and {:#x} is needed",
                static_cast<unsigned>(request.remote.rights), static_cast<unsigned>(need));
  return check_range(request.offset, request.length, request.remote.length);
}

Status check_word(const RemoteRegion& region, std::uint64_t offset, const char* what) {
  if ((region.address + offset) % 8 != 0)
    return fail(Code::kInvalidArgument, "{} needs a word that is aligned to 8 bytes, not at {:#x}",
                what, region.address + offset);
  return check_range(offset, 8, region.length);
}

bool word_fits(const RemoteAt& word) {
  return (word.region.address + word.offset) % 8 == 0 && word.offset <= word.region.length &&
         word.region.length - word.offset >= 8;
}

Status check_flag(const RemoteAt& flag) {
  if (!allows(flag.region.rights, Rights::kWrite))
    return fail(Code::kPermissionDenied, "the flag's grant is read-only");
  return check_word(flag.region, flag.offset, "a flag");
}

}  // namespace

Transfer ChannelCore::post(Request& request) {
  static std::byte nothing{};
  if (request.local == nullptr)
    request.local = &nothing;  // of empty copies; memcpy wants none null
  auto transfer = lane().post(request);
  // Still here: the lane ended the request at once, and has left the callback to us.
  if (__builtin_expect(static_cast<bool>(request.callback), 0)) request.callback(transfer.wait());
  return transfer;
}

Transfer Channel::post(Request& request) {
  if (core_ == nullptr) return refused(request, closed().error());
  if (stripes_.empty() || request.length <= core_->shared().stripe_bytes)
    return core_->post(request);
  return post_striped(*core_, stripes_, request);
}

Channel::~Channel() = default;

void Channel::close() {
  stripes_.clear();
  core_.reset();
}

inline bool Channel::write_now(std::span<const std::byte> local, const RemoteAt& remote,
                               const RemoteAt* flag, std::uint64_t value, bool notify,
                               const OpOptions& options) const {
  return core_ != nullptr && !options.callback &&
         fits(remote.region, remote.offset, local.size(), Rights::kWrite) &&
         core_->lane().write_now(local, remote, flag, value, notify);
}

Transfer Channel::write(std::span<const std::byte> local, const RemoteAt& remote,
                        OpOptions options) {
  if (write_now(local, remote, nullptr, 0, false, options)) [[likely]]
    return Transfer::done();
  return post_write(local, remote, options);
}

[[gnu::noinline]] Transfer Channel::post_write(std::span<const std::byte> local,
                                               const RemoteAt& remote, OpOptions& options) {
  Request request;
  request.verb = Verb::kWrite;
  request.local = const_cast<std::byte*>(local.data());  // a write only reads it
  request.length = local.size();
  request.remote = remote.region;
  request.offset = remote.offset;
  request.deadline = options.deadline;
  request.callback = std::move(options.callback);
  request.pace = options.pace;
  if (!fits(request, Rights::kWrite))
    return refused(request, check(request, Rights::kWrite).error());
  return post(request);
}

Transfer Channel::read(std::span<std::byte> local, const RemoteAt& remote, OpOptions options) {
  Request request;
  request.verb = Verb::kRead;
  request.local = local.data();
  request.length = local.size();
  request.remote = remote.region;
  request.offset = remote.offset;
  request.deadline = options.deadline;
  request.callback = std::move(options.callback);
  if (auto status = check(request, Rights::kRead); !status) return refused(request, status.error());
  return post(request);
}

Transfer Channel::copy(std::span<const Copy> copies, OpOptions options) {
  Request whole;
  whole.deadline = options.deadline;
  whole.callback = std::move(options.callback);
  if (core_ == nullptr) return refused(whole, closed().error());
  for (const auto& copy : copies) {
    Request request;
    request.length = copy.local.size();
    request.remote = copy.remote.region;
    request.offset = copy.remote.offset;
    bool write = copy.direction == Direction::kWrite;
    if (auto status = check(request, write ? Rights::kWrite : Rights::kRead); !status)
      return refused(whole, status.error());
  }
  Batch batch(*core_, whole, copies.size());
  for (const auto& copy : copies) {
    Request request;
    request.verb = copy.direction == Direction::kWrite ? Verb::kWrite : Verb::kRead;
    request.local = copy.local.data();
    request.length = copy.local.size();
    request.remote = copy.remote.region;
    request.offset = copy.remote.offset;
    request.deadline = options.deadline;
    batch.post(*core_, request);
  }
  return batch.take();
}

Transfer Channel::write_flagged(std::span<const std::byte> local, const RemoteAt& remote,
                                const RemoteAt& flag, std::uint64_t value, OpOptions options,
                                bool notify) {
  bool flag_fits = allows(flag.region.rights, Rights::kWrite) && word_fits(flag);
  if (flag_fits && write_now(local, remote, &flag, value, notify, options)) [[likely]]
    return Transfer::done();
  return post_flagged(local, remote, flag, value, options, notify);
}

[[gnu::noinline]] Transfer Channel::post_flagged(std::span<const std::byte> local,
                                                 const RemoteAt& remote, const RemoteAt& flag,
                                                 std::uint64_t value, OpOptions& options,
                                                 bool notify) {
  Flag word{flag.region, flag.offset, value, notify};
  Request request;
  request.verb = Verb::kWrite;
  request.local = const_cast<std::byte*>(local.data());  // a write only reads it
  request.length = local.size();
  request.remote = remote.region;
  request.offset = remote.offset;
  request.flag = &word;
  request.deadline = options.deadline;
  request.callback = std::move(options.callback);
  request.pace = options.pace;
  if (!fits(request, Rights::kWrite))
    return refused(request, check(request, Rights::kWrite).error());
  if (auto status = check_flag(flag); !status) return refused(request, status.error());
  return post(request);
}

Transfer Channel::fetch_add(const RemoteAt& word, std::uint64_t addend, OpOptions options) {
  Request request;
  request.verb = Verb::kFetchAdd;
  request.operand = addend;
  return post_atomic(request, word, std::move(options));
}

Transfer Channel::compare_swap(const RemoteAt& word, std::uint64_t expected, std::uint64_t desired,
                               OpOptions options) {
  Request request;
  request.verb = Verb::kCompareSwap;
  request.compare = expected;
  request.operand = desired;
  return post_atomic(request, word, std::move(options));
}

Transfer Channel::post_atomic(Request& request, const RemoteAt& word, OpOptions options) {
  request.length = 8;
  request.remote = word.region;
  request.offset = word.offset;
  request.deadline = options.deadline;
  request.callback = std::move(options.callback);
  if (!fits(request, Rights::kAtomic))
    return refused(request, check(request, Rights::kAtomic).error());
  if (!word_fits(word))
    return refused(request, check_word(word.region, word.offset, "an atomic").error());
  return post(request);
}

Transfer Channel::send(std::span<const std::byte> message, OpOptions options) {
  Request request;
  request.verb = Verb::kMessage;
  request.local = const_cast<std::byte*>(message.data());  // a message is only read
  request.length = message.size();
  request.deadline = options.deadline;
  request.callback = std::move(options.callback);
  if (core_ == nullptr) return refused(request, closed().error());
  auto most = core_->lane().capabilities().max_message;
  if (message.size() > most)
    return refused(request, fail(Code::kInvalidArgument,
                                 "a message of {} bytes; this path takes {} at most: write larger "
                                 "data into a region",
                                 message.size(), most)
                                .value());
  return core_->post(request);
}

Result<std::size_t> Channel::receive(std::span<std::byte> into, Deadline deadline, WaitMode mode) {
  if (core_ == nullptr) return tl::unexpected<Error>(closed().error());
  auto* core = core_.get();
  // A lane that broke while the peer lives is connected anew meanwhile.
  auto there = [core] {
    return core->lane().has_message() || !core->connection().alive() || core->failed();
  };
  core->lane().loop().wait_until(there, deadline, mode);
  if (core->lane().has_message()) return core->lane().take_message(into);
  FERRY_TRY(core->connection().check_alive());
  if (core->failed()) return fail(Code::kUnavailable, "the channel to {} is down", peer_endpoint());
  return fail(Code::kDeadlineExceeded, "no message came from {} in time", peer_endpoint());
}

Status Channel::wait_for_flag(const std::byte* word, std::uint64_t value, Deadline deadline,
                              WaitMode mode) {
  if (core_ == nullptr) return closed();
  __atomic_store_n(&looks_, core_->lane().has_work() ? 0 : waiting::kFlagLooksInline,
                   __ATOMIC_RELAXED);
  return fabric::wait_flag(core_->lane().loop(), word, value, deadline, mode, core_.get());
}

Result<RemoteRegion> Channel::look_up(std::string_view name, Deadline deadline) {
  if (core_ == nullptr) return tl::unexpected<Error>(closed().error());
  std::vector<std::byte> request;
  auto wait = static_cast<std::uint32_t>(deadline.left_ms());
  bootstrap::Encoder(request).u32(wait).string(name);
  auto answer = FERRY_TRY(core_->connection().request(FrameType::kLookUp, request, deadline));
  return RemoteRegion::from_wire(answer);
}

Result<std::span<std::byte>> Channel::map(const RemoteRegion& remote, Deadline deadline) {
  if (core_ == nullptr) return tl::unexpected<Error>(closed().error());
  return core_->lane().map(remote, deadline);
}

Result<std::span<std::byte>> Channel::map(const RemoteRegion& remote) {
  return map(remote, Deadline::after(std::chrono::seconds(1)));
}

void Channel::wake_peer() const {
  if (core_ != nullptr) core_->lane().wake_peer();
}

// A closed channel has no path and no peer. Stripes of a write land independently of each other.
Capabilities Channel::capabilities() const {
  if (core_ == nullptr) return {};
  auto capabilities = core_->lane().capabilities();
  if (!stripes_.empty()) capabilities.tail_flag = false;
  return capabilities;
}
std::string Channel::provider() const {
  return core_ == nullptr ? "" : std::string(core_->provider().name());
}
std::string Channel::why() const { return core_ == nullptr ? "" : core_->why(); }
std::string Channel::peer_endpoint() const {
  return core_ == nullptr ? "" : core_->connection().identity().endpoint;
}
DeviceId Channel::peer() const {
  return core_ == nullptr ? DeviceId{} : core_->connection().identity().device;
}
std::string Channel::peer_host() const {
  return core_ == nullptr ? "" : core_->connection().identity().host;
}
std::uint32_t Channel::session_number() const { return core_->connection().number(); }
PeerState Channel::peer_state() const {
  if (core_ == nullptr || core_->failed() || !core_->connection().alive()) return PeerState::kLost;
  return core_->connection().silent_for() == Nanos(0) ? PeerState::kAnswers : PeerState::kSilent;
}
Nanos Channel::silent_for() const {
  return core_ == nullptr ? Nanos(0) : core_->connection().silent_for();
}
bool Channel::alive() const {
  return core_ != nullptr && core_->connection().alive() && core_->lane().up();
}

}  // namespace ferry::fabric
