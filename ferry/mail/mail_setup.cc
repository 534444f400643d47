#include <algorithm>

#include "ferry/mail/mail_options_internal.h"
#include "ferry/mail/mail_setup_internal.h"
#include "ferry/mail/mail_words_internal.h"

namespace ferry::mail {

namespace {

constexpr landing::SlotNames kMailNames{.item = "message batch", .owner = "mailbox"};

Result<MailHello> exchange_hellos(fabric::Channel& channel, const MailHello& mine,
                                  const MailStart& start, Deadline deadline) {
  auto wire = mine.to_wire();
  auto sent = channel.send(wire, {.deadline = deadline});
  auto theirs = receive_hello(channel, start, deadline);
  auto away = sent.wait();
  FERRY_TRY(std::move(away));
  return MailHello::from_wire(FERRY_TRY(std::move(theirs)));
}

landing::Address landing_of(const MailHello& hello, const fabric::Channel& channel) {
  return {.spins = hello.spins,
          .slots = hello.slots,
          .body = hello.body,
          .nonce = hello.nonce,
          .owner = channel.peer(),
          .region = hello.landing};
}

// The beginning of the peer's words as memory of this process; null where the path maps nothing.
Result<std::byte*> map_words(const MailHello& hello, fabric::Channel& channel) {
  if (!channel.capabilities().maps_peer) return nullptr;
  auto memory = FERRY_TRY(channel.map(hello.words));
  if (memory.size() < hello.rendezvous * landing::Layout::kLine)
    return fail(Code::kDataLoss, "the peer at {} granted too little", channel.peer_endpoint());
  return memory.data();
}

landing::RemoteWord word_of(const MailHello& hello, fabric::Channel& channel, std::byte* mapped,
                            std::uint64_t at) {
  return {channel, fabric::RemoteAt{hello.words, at}, mapped == nullptr ? nullptr : mapped + at,
          !hello.spins};
}

}  // namespace

Result<MailSetup> MailSetup::open(fabric::Device& device, fabric::Channel& channel,
                                  const MailboxOptions& options, const MailStart& start,
                                  Deadline deadline) {
  auto slot_bytes = mail_slot_bytes(options, start.tuning);
  auto layout = FERRY_TRY(landing::Layout::of(options.slots, align_up(slot_bytes, 64)));
  MailSetup setup;
  setup.options = options;
  setup.tuning = start.tuning;
  setup.source = start.source;
  setup.landing = FERRY_TRY(
      landing::Landing::open(device, channel, layout, landing::random_nonce(), kMailNames));
  setup.words = FERRY_TRY(
      device.allocate(options.rendezvous * landing::Layout::kLine, fabric::Rights::kReadWrite));
  MailHello mine;
  mine.spins = options.spins;
  mine.slots = layout.slots;
  mine.rendezvous = options.rendezvous;
  mine.body = layout.body;
  mine.nonce = setup.landing.nonce();
  mine.most_bytes = std::min(options.most_bytes, MailLimits::kBytes);
  mine.landing = setup.landing.remote();
  mine.words = FERRY_TRY(device.grant(setup.words, fabric::Rights::kReadWrite, channel));
  setup.peer = FERRY_TRY(exchange_hellos(channel, mine, start, deadline));
  auto mode = options.spins ? fabric::WaitMode::kSpin : fabric::WaitMode::kAdaptive;
  setup.launch = FERRY_TRY(
      landing::Launch::open(device, channel, landing_of(setup.peer, channel), mode, kMailNames));
  auto* mapped = FERRY_TRY(map_words(setup.peer, channel));
  for (std::uint32_t i = 0; i < setup.peer.rendezvous; ++i)
    setup.peer_words.push_back(word_of(setup.peer, channel, mapped, i * landing::Layout::kLine));
  setup.closed_word = word_of(setup.peer, channel, mapped, MailWords::closed_offset());
  if (!setup.launch.maps())
    setup.staging =
        FERRY_TRY(device.allocate(setup.batch_body() * setup.stages(), fabric::Rights::kRead));
  FERRY_TRY(setup.landing.await_sender(device, deadline, mode));
  return setup;
}

std::uint64_t MailSetup::batch_body() const {
  return launch.maps() ? peer.body : std::min(peer.body, landing.layout().body);
}

}  // namespace ferry::mail
