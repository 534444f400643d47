#include "ferry/mail/calibrate.h"

#include <array>

#include "ferry/mail/calibrate_internal.h"
#include "ferry/mail/tuning_cache.h"
#include "ferry/mail/tuning_wire_internal.h"

namespace ferry::mail {

namespace {

using Command = CalibrateCommand;

constexpr std::size_t kMostTrials = 32;
constexpr std::size_t kPage = 4096;

// A receiver that looks at a message reads it; a byte of each page stands for that.
std::byte touch(const Message& message) {
  std::byte sum{};
  for (const auto& part : message.parts())
    for (std::size_t at = 0; at < part.size(); at += kPage) sum ^= part[at];
  return sum;
}

Status echo(Mailbox& box, std::uint64_t rounds, Deadline deadline) {
  for (std::uint64_t i = 0; i < rounds; ++i) {
    auto message = FERRY_TRY(box.receive(deadline));
    std::array<std::byte, 2> answer{touch(message)};
    FERRY_TRY(box.send_and_wait(answer, deadline));
    FERRY_TRY(message.release());
  }
  return {};
}

Result<Calibration> receive_result(CalibrationEnd& end, std::size_t trial) {
  auto message = FERRY_TRY(end.box(trial).receive(end.deadline()));
  FERRY_TRY(end.send({.kind = Command::Kind::kEnd}));
  std::string text;
  for (const auto& part : message.parts())
    text.append(reinterpret_cast<const char*>(part.data()), part.size());
  return FERRY_TRY(TuningEntry::from_text(text)).found;
}

}  // namespace

std::vector<std::byte> CalibrateCommand::to_wire() const {
  std::vector<std::byte> out;
  bootstrap::Encoder(out).u32(static_cast<std::uint32_t>(kind)).u32(trial).u64(rounds);
  encode_tuning(out, tuning);
  return out;
}

Result<Command> CalibrateCommand::from_wire(std::span<const std::byte> wire) {
  bootstrap::Decoder in(wire);
  Command command;
  auto kind = in.u32();
  command.trial = in.u32();
  command.rounds = in.u64();
  command.tuning = decode_tuning(in);
  FERRY_TRY(in.finish("a step of a calibration"));
  if (kind < static_cast<std::uint32_t>(Kind::kOpen) ||
      kind > static_cast<std::uint32_t>(Kind::kEnd))
    return fail(Code::kInvalidArgument, "step {} of a calibration is unknown", kind);
  FERRY_TRY(check_tuning(command.tuning));
  command.kind = static_cast<Kind>(kind);
  return command;
}

Status CalibrationEnd::open(const Tuning& tuning) {
  if (trials_.size() == kMostTrials)
    return fail(Code::kOutOfRange, "a calibration with more than {} mailboxes", kMostTrials);
  MailboxOptions options;
  options.eager_threshold = tuning.eager_threshold;
  options.copy_up_to = tuning.copy_up_to;
  options.chunk_bytes = tuning.chunk_bytes;
  options.chunks_in_flight = tuning.chunks_in_flight;
  options.spin = tuning.spin;
  auto trial = std::make_unique<Trial>();
  trial->room = FERRY_TRY(MailRoom::open(device_, {.tuning = TuningUse::kOff}));
  trial->box = FERRY_TRY(Mailbox::open(*trial->room, device_, channel_, options, deadline_));
  trials_.push_back(std::move(trial));
  return {};
}

void CalibrationEnd::close() { trials_.clear(); }

Status CalibrationEnd::send(const Command& command) {
  auto wire = command.to_wire();
  return channel_.send(wire, {.deadline = deadline_}).wait();
}

Result<Command> CalibrationEnd::receive() {
  std::vector<std::byte> wire(Command().to_wire().size());
  wire.resize(FERRY_TRY(channel_.receive(wire, deadline_)));
  return Command::from_wire(wire);
}

Result<Calibration> follow_calibration(CalibrationEnd& end) {
  for (;;) {
    auto command = FERRY_TRY(end.receive());
    bool known = command.trial < end.size();
    switch (command.kind) {
      case Command::Kind::kOpen:
        FERRY_TRY(end.open(command.tuning));
        continue;
      case Command::Kind::kClose:
        end.close();
        continue;
      case Command::Kind::kRounds:
        if (!known) break;
        FERRY_TRY(echo(end.box(command.trial), command.rounds, end.deadline()));
        continue;
      case Command::Kind::kEnd:
        if (!known) break;
        return receive_result(end, command.trial);
    }
    return fail(Code::kInvalidArgument, "{} calibrates with a mailbox that is not open",
                end.channel().peer_endpoint());
  }
}

bool leads_calibration(const fabric::Device& device, const fabric::Channel& channel) {
  return device.id() < channel.peer();
}

Result<Calibration> calibrate(fabric::Device& device, fabric::Channel& channel,
                              CalibrateOptions options, Deadline deadline) {
  CalibrationEnd end(device, channel, deadline);
  if (!leads_calibration(device, channel)) return follow_calibration(end);
  return CalibrationLead(end, default_tuning(channel.provider()), options).run();
}

}  // namespace ferry::mail
