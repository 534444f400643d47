#include "ferry/mail/mailbox.h"

#include <algorithm>
#include <array>

#include "ferry/mail/mail_core_internal.h"

namespace ferry::mail {

Result<MailRoom> MailRoom::open(fabric::Device& device, MailRoomOptions options) {
  if (options.budget_bytes == 0)
    return fail(Code::kInvalidArgument, "a mail room without memory takes no large messages");
  return MailRoom(std::make_unique<RoomCore>(device, options));
}

MailRoom::MailRoom(std::unique_ptr<RoomCore> core) : core_(std::move(core)) {}
MailRoom::MailRoom(MailRoom&&) noexcept = default;
MailRoom& MailRoom::operator=(MailRoom&&) noexcept = default;
MailRoom::~MailRoom() = default;

Result<RoomBuffer> MailRoom::allocate(std::uint64_t bytes) {
  const auto buffer = FERRY_TRY(core_->resources().buffers.take(bytes));
  return RoomBuffer(core_.get(), buffer.index, buffer.bytes.first(bytes));
}

template <>
void RoomBuffer::reset() {
  if (auto* room = std::exchange(owner_, nullptr)) room->resources().buffers.unshare(index_);
  bytes_ = {};
}

std::uint64_t MailRoom::bytes_in_use() const { return core_->resources().receive_memory.in_use(); }
bool MailRoom::crowded() const { return core_->resources().receive_memory.crowded(); }

Result<std::size_t> MailRoom::wait_any(std::span<Mailbox* const> boxes, Deadline deadline,
                                       fabric::WaitMode mode) {
  if (boxes.empty()) return fail(Code::kInvalidArgument, "no mailboxes to wait for");
  auto begin = core_->next_box();
  for (bool last = false;;) {
    core_->progress_others(nullptr);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      auto index = (begin + i) % boxes.size();
      if (boxes[index]->core_->signals().ready()) return index;
    }
    if (last)
      return fail(Code::kDeadlineExceeded, "no message came to any of {} mailboxes in time",
                  boxes.size());
    auto ready = [boxes] {
      for (const auto* box : boxes)
        if (box->core_->signals().ready()) return true;
      return false;
    };
    last = !core_->wait(ready, deadline, mode) || deadline.expired();
  }
}

Mailbox::Mailbox(std::unique_ptr<MailCore> core) : core_(std::move(core)) {}
Mailbox::Mailbox(Mailbox&&) noexcept = default;
Mailbox& Mailbox::operator=(Mailbox&&) noexcept = default;
Mailbox::~Mailbox() = default;

Sending Mailbox::send(MailParts parts, Deadline deadline) {
  auto sent = core_->engine().send(parts, deadline);
  if (!sent) return Sending(sent.error());
  if (sent->lacks != 0)
    return Sending(core_->engine().no_room(Code::kResourceExhausted, sent->lacks).value());
  return Sending(core_.get(), sent->out);
}

Sending Mailbox::send(std::span<const std::byte> bytes, Deadline deadline) {
  std::array<std::span<const std::byte>, 1> parts{bytes};
  return send(parts, deadline);
}

Status Mailbox::send_and_wait(MailParts parts, Deadline deadline, fabric::WaitMode mode) {
  auto* out = FERRY_TRY(core_->send_when_room(parts, deadline, mode));
  return Sending(core_.get(), out).wait(mode);
}

Status Mailbox::send_and_wait(std::span<const std::byte> bytes, Deadline deadline,
                              fabric::WaitMode mode) {
  std::array<std::span<const std::byte>, 1> parts{bytes};
  return send_and_wait(parts, deadline, mode);
}

Status Mailbox::drain(Deadline deadline, fabric::WaitMode mode) {
  return core_->drain(deadline, mode);
}

Result<MailBuffer> Mailbox::allocate(std::uint64_t bytes) { return allocate(bytes, Deadline()); }

Result<MailBuffer> Mailbox::allocate(std::uint64_t bytes, Deadline deadline,
                                     fabric::WaitMode mode) {
  auto buffer = FERRY_TRY(core_->allocate_when_room(bytes, deadline, mode));
  return MailBuffer(core_.get(), buffer.index, buffer.bytes.first(bytes));
}

Result<Message> Mailbox::receive(Deadline deadline, fabric::WaitMode mode) {
  return Message(core_.get(), FERRY_TRY(core_->wait_next(false, deadline, mode)));
}

Result<Message> Mailbox::receive_begun(Deadline deadline, fabric::WaitMode mode) {
  return Message(core_.get(), FERRY_TRY(core_->wait_next(true, deadline, mode)));
}

Result<std::optional<Message>> Mailbox::poll() {
  auto* parcel = FERRY_TRY(core_->engine().take_next(false));
  if (parcel == nullptr) return std::optional<Message>();
  return std::optional<Message>(Message(core_.get(), parcel));
}

bool Mailbox::may_be_ready(bool wants_message) const {
  return (wants_message && core_->signals().ready()) || core_->signals().may_be_ready();
}
std::uint64_t Mailbox::open_sends() const { return core_->signals().open_sends(); }
MailStats Mailbox::stats() const { return core_->engine().stats(); }
Tuning Mailbox::tuning() const { return core_->engine().path().tuning.now(); }
TuningSource Mailbox::tuning_source() const { return core_->engine().path().tuning.source(); }
Status Mailbox::retune(const Tuning& tuning, TuningSource source) {
  FERRY_TRY(check_tuning(tuning));
  core_->engine().retune(tuning, source);
  return {};
}

bool Sending::poll() {
  if (outgoing_ == nullptr) return true;
  if (!core_->engine().poll_send(outgoing_)) return false;
  take_outcome();
  return true;
}

Status Sending::wait(fabric::WaitMode mode) {
  if (outgoing_ != nullptr) {
    core_->wait_send(outgoing_, mode);
    take_outcome();
  }
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

void Sending::take_outcome() {
  error_ = outgoing_->error;
  drop();
}

void Sending::drop() {
  if (outgoing_ != nullptr) core_->engine().drop_send(std::exchange(outgoing_, nullptr));
}

template <>
void MailBuffer::reset() {
  if (auto* core = std::exchange(owner_, nullptr)) core->engine().drop_buffer(index_);
  bytes_ = {};
}

std::span<const std::span<const std::byte>> Message::parts() const { return parcel_->parts; }
std::uint64_t Message::bytes() const { return parcel_->bytes; }
std::uint64_t Message::number() const { return parcel_->number; }
bool Message::in_slot() const { return parcel_->place == MailParcel::Place::kSlot; }

std::uint64_t Message::landed() const {
  auto span = parcel_->landed.load(std::memory_order_acquire);
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  for (const auto& part : parcel_->parts) {
    at = align_up(at, MailLimits::kAlign);
    if (span <= at) break;
    bytes += std::min<std::uint64_t>(part.size(), span - at);
    at += part.size();
  }
  return bytes;
}

Status Message::wait_bytes(std::uint64_t bytes, Deadline deadline, fabric::WaitMode mode) {
  if (bytes > parcel_->bytes)
    return fail(Code::kOutOfRange, "{} bytes of a message of {}", bytes, parcel_->bytes);
  std::uint64_t at = 0;
  for (const auto& part : parcel_->parts) {
    if (bytes == 0) break;
    at = align_up(at, MailLimits::kAlign) + std::min<std::uint64_t>(part.size(), bytes);
    bytes -= std::min<std::uint64_t>(part.size(), bytes);
  }
  return core_->wait_landed(*parcel_, at, deadline, mode);
}

Status Message::release() {
  auto* core = std::exchange(core_, nullptr);
  return core == nullptr ? Status() : core->engine().let_go(parcel_);
}

}  // namespace ferry::mail
