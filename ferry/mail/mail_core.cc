// Data path.
#include "ferry/base/waiting.h"
#include "ferry/mail/mail_core_internal.h"

namespace ferry::mail {

template <class Done>
bool MailCore::await(Done done, Deadline deadline, fabric::WaitMode mode) {
  const auto& path = engine_.path();
  if (path.maps && mode != fabric::WaitMode::kSleep) {
    for (int look = 0; look < waiting::kMailLooks; ++look) {
      if (done() || signals().may_be_ready()) return true;
      cpu_relax();
    }
  }
  if (!room_.wait(done, deadline, mode, path.tuning.spin())) return false;
  room_.progress_others(&engine_);
  return done() || !deadline.expired();
}

Result<MailOutgoing*> MailCore::send_when_room(MailParts parts, Deadline deadline,
                                               fabric::WaitMode mode) {
  for (bool last = false;;) {
    auto sent = FERRY_TRY(engine_.send(parts, deadline));
    if (sent.lacks == 0) return sent.out;
    if (last) return engine_.no_room(Code::kDeadlineExceeded, sent.lacks);
    auto room = [this, &sent] { return signals().may_accept(sent.lacks); };
    last = !await(room, deadline, mode);
  }
}

void MailCore::wait_send(MailOutgoing* out, fabric::WaitMode mode) {
  auto ended = [out] { return out->ended.load(std::memory_order_acquire); };
  while (!engine_.poll_send(out)) await(ended, out->deadline, mode);
}

Status MailCore::drain(Deadline deadline, fabric::WaitMode mode) {
  auto none = [this] { return signals().open_sends() == 0; };
  for (;;) {
    engine_.progress();
    if (none()) return {};
    if (!await(none, deadline, mode))
      return fail(Code::kDeadlineExceeded, "{} messages to {} were not sent in time",
                  signals().open_sends(), engine_.path().channel.peer_endpoint());
  }
}

Result<landing::BufferPool::Buffer> MailCore::allocate_when_room(std::uint64_t bytes,
                                                                 Deadline deadline,
                                                                 fabric::WaitMode mode) {
  auto room = [this, bytes] { return signals().may_allocate(bytes); };
  for (bool last = false;;) {
    auto buffer = FERRY_TRY(engine_.allocate(bytes));
    if (buffer) return *buffer;
    if (last)
      return engine_.no_buffer(
          deadline.ns() == 0 ? Code::kResourceExhausted : Code::kDeadlineExceeded, bytes);
    last = deadline.ns() == 0 || !await(room, deadline, mode);
  }
}

Result<MailParcel*> MailCore::wait_next(bool begun, Deadline deadline, fabric::WaitMode mode) {
  auto there = [this, begun] { return begun ? signals().begun() : signals().ready(); };
  for (bool last = false;;) {
    if (auto* parcel = FERRY_TRY(engine_.take_next(begun))) return parcel;
    if (last)
      return fail(Code::kDeadlineExceeded, "no message came from {} in time",
                  engine_.path().channel.peer_endpoint());
    last = !await(there, deadline, mode);
  }
}

Status MailCore::wait_landed(MailParcel& parcel, std::uint64_t span, Deadline deadline,
                             fabric::WaitMode mode) {
  auto there = [&parcel, span] { return parcel.reached(span); };
  for (bool last = false;;) {
    if (parcel.landed.load(std::memory_order_acquire) >= span) return {};
    if (parcel.failed.load(std::memory_order_acquire)) return engine_.failure_of(parcel);
    if (last)
      return fail(Code::kDeadlineExceeded, "a message from {} did not land in time",
                  engine_.path().channel.peer_endpoint());
    last = !await(there, deadline, mode);
    engine_.progress();
  }
}

}  // namespace ferry::mail
