#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "bench/limits/round.h"
#include "bench/rounds/need.h"
#include "bench/suites/message.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ferry.h"

namespace ferry::bench {
namespace {

using mail::MailBuffer;

constexpr auto kMessagePatience = std::chrono::seconds(60);

struct MessageSetting {
  std::string provider = "shm";
  std::string secret;
  // Fixed ones; 0: tuned.
  std::uint64_t eager = 0;
  std::uint64_t chunk = 0;

  bool fixed() const { return eager != 0 || chunk != 0; }
};

fabric::Options message_device(const MessageSetting& setting) {
  fabric::Options options;
  options.provider = setting.provider;
  options.secret = setting.secret;
  return options;
}

mail::MailRoomOptions message_room(const MessageSetting& setting) {
  mail::MailRoomOptions options;
  if (setting.fixed()) options.tuning = mail::TuningUse::kOff;
  return options;
}

mail::MailboxOptions message_box(const MessageSetting& setting) {
  mail::MailboxOptions options;
  options.spins = true;
  if (setting.eager != 0) options.eager_threshold = setting.eager;
  if (setting.chunk != 0) options.chunk_bytes = setting.chunk;
  return options;
}

// A message there, two bytes back. Both ends spin.
class MessagePair final : public limits::Pair {
 public:
  MessagePair(limits::Link& link, const MessageSetting& setting)
      : link_(link),
        device_(need(Device::open(message_device(setting)))),
        room_(need(MailRoom::open(device_, message_room(setting)))) {
    auto board = link_.blackboard();
    if (giver()) {
      link_.meet();
      channel_ = need(device_.connect(reinterpret_cast<const char*>(board.data())));
    } else {
      const auto endpoint = device_.endpoint();
      std::memcpy(board.data(), endpoint.c_str(), endpoint.size() + 1);
      link_.meet();
      channel_ = need(device_.accept(Deadline::after(kMessagePatience)));
    }
    box_ = need(Mailbox::open(room_, device_, channel_, message_box(setting),
                              Deadline::after(kMessagePatience)));
    link_.meet();
  }

  void open(std::uint64_t bytes) override {
    if (!giver()) return;
    source_ = need(box_->allocate(bytes));
    limits::fault_in(source_.bytes());
  }

  void close() override {
    (void)message_.release();
    source_.reset();
  }

  std::span<std::byte> source() override { return source_.bytes(); }

  // The answer says that nobody looks at the message any more, so the next one may be made in the
  // same memory.
  void give(std::uint32_t round) override {
    const auto deadline = patience();
    auto sending = box_->send(source_.bytes(), deadline);
    const auto answer = need(box_->receive(deadline, WaitMode::kSpin));
    std::uint16_t echo = 0;
    if (answer.bytes() != sizeof echo) throw limits::Failure("the answer has another size");
    std::memcpy(&echo, answer.parts()[0].data(), sizeof echo);
    if (echo != static_cast<std::uint16_t>(round))
      throw limits::Failure("the answer is not this round's");
    need(sending.wait(WaitMode::kSpin));
  }

  limits::Pieces take(std::uint32_t) override {
    // Before the next one is waited for: it then lands in the same memory.
    (void)message_.release();
    message_ = need(box_->receive(patience(), WaitMode::kSpin));
    return message_.parts();
  }

  void answer(std::uint32_t round) override {
    const auto echo = static_cast<std::uint16_t>(round);
    need(box_->send_and_wait(std::as_bytes(std::span(&echo, 1)), patience(), WaitMode::kSpin));
  }

 private:
  bool giver() const { return link_.side() == limits::Side::kGiver; }
  // One deadline for many waits: it costs a look at the clock.
  Deadline patience() {
    if (waits_++ % 256 == 0) deadline_ = Deadline::after(kMessagePatience);
    return deadline_;
  }

  limits::Link& link_;
  Device device_;
  Channel channel_;
  MailRoom room_;
  std::optional<Mailbox> box_;
  MailBuffer source_;
  Message message_;
  std::uint64_t waits_ = 0;
  Deadline deadline_;
};

int serve_messages(MessageSetting setting) {
  setting.secret = need(cli::random_secret());
  limits::Program program;
  program.name = "ferry-message-" + setting.provider;
  program.what = "this library";
  program.min_bytes = 2;
  program.make = [setting](limits::Link& link) -> std::unique_ptr<limits::Pair> {
    return std::make_unique<MessagePair>(link, setting);
  };
  return limits::serve(program);
}

}  // namespace

void add_bench_message_round(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("message-round", "One pair of processes for `bench message`");
  command->group("");  // not in --help: `ferry bench message` starts it
  auto setting = std::make_shared<MessageSetting>();
  command->add_option("--provider", setting->provider);
  command->add_option("--eager", setting->eager);
  command->add_option("--chunk", setting->chunk);
  command->callback([setting, &exit_code] { exit_code = serve_messages(*setting); });
}

}  // namespace ferry::bench
