#include <fmt/format.h>

#include "ferry/ps/wire/abort_cause_internal.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

std::string_view text_of(Breach breach) {
  switch (breach) {
    case Breach::kNumber:
      return "sent an entry whose number is not the next one";
    case Breach::kOperation:
      return "asked for an operation that there is not";
    case Breach::kPart:
      return "named a part that there is not";
    case Breach::kPayload:
      return "named a payload outside of its slots and memories, or one that is not aligned";
    case Breach::kBlocks:
      return "named blocks that the part does not have, or bytes that are not theirs";
    case Breach::kTwice:
      return "pushed a block twice in one step";
    case Breach::kRows:
      return "named rows that the part does not have, or bytes that are not theirs";
    case Breach::kStep:
      return "pushed to a step that is applied";
    case Breach::kEnd:
      return "ended a step that is not its next one";
  }
  return "sent an entry that cannot be";
}

std::string AbortCause::describe(
    const JobOptions& job, const std::function<std::string(std::uint32_t)>& endpoint_of) const {
  const auto name = [&](std::uint32_t server) {
    const auto endpoint = endpoint_of(server);
    return endpoint.empty() ? fmt::format("server {}", server)
                            : fmt::format("server {} at {}", server, endpoint);
  };
  switch (kind) {
    case Kind::kWorkersDied:
      return fmt::format("{} workers have died, {} may; the job has ended", number, job.most_dead);
    case Kind::kServerLost:
      return fmt::format("{} is gone, and its blocks with it; the job has ended", name(number));
    case Kind::kBothCopiesLost:
      return fmt::format(
          "{} and {} are gone, and both copies of some blocks with them; the job has ended; begin "
          "anew from the last snapshot",
          name(number), name(other));
    case Kind::kStateNotWritten:
      return "the scheduler cannot keep its state; the job has ended";
    case Kind::kBreach:
      return fmt::format(
          "a server hears this worker no more, since it broke the protocol: it {}; the job goes on",
          text_of(static_cast<Breach>(number)));
    case Kind::kOther:
      break;
  }
  return "the job has ended; the scheduler's log says why";
}

void put(bootstrap::Encoder& out, const StopNotice& notice) {
  out.u8(notice.failed ? 1 : 0);
  if (!notice.failed) return;
  out.u8(static_cast<std::uint8_t>(notice.cause.kind)).u32(notice.cause.number);
  out.u16(notice.cause.other).string(notice.text.substr(0, kMostName));
}

StopNotice get_stop(bootstrap::Decoder& in) {
  StopNotice notice;
  notice.failed = in.u8() != 0;
  if (!notice.failed) return notice;
  notice.cause.kind = static_cast<AbortCause::Kind>(in.u8());
  notice.cause.number = in.u32();
  notice.cause.other = in.u16();
  notice.text = in.string(kMostName);
  return notice;
}

}  // namespace ferry::ps
