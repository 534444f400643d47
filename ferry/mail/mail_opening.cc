#include <algorithm>

#include "ferry/bootstrap/codec.h"
#include "ferry/mail/mail_opening_internal.h"
#include "ferry/mail/mail_record_internal.h"
#include "ferry/mail/tuning_wire_internal.h"

namespace ferry::mail {

namespace {
constexpr std::uint32_t kOfferMagic = 0x314E5446;  // "FTN1"
}  // namespace

bool is_offer(std::span<const std::byte> opening) {
  return bootstrap::Decoder(opening).u32() == kOfferMagic;
}

Result<MailOpening> receive_opening(fabric::Channel& channel, Deadline deadline) {
  MailOpening opening(std::max(MailHello::kWireBytes, TuningOffer::kWireBytes));
  opening.resize(FERRY_TRY(channel.receive(opening, deadline)));
  return opening;
}

TuningOffer::Wire TuningOffer::to_wire() const {
  std::vector<std::byte> out;
  bootstrap::Encoder(out).u32(kOfferMagic).u32(static_cast<std::uint32_t>(state));
  encode_tuning(out, tuning);
  Wire wire{};
  std::copy(out.begin(), out.end(), wire.begin());
  return wire;
}

Result<TuningOffer> TuningOffer::from_wire(std::span<const std::byte> wire) {
  bootstrap::Decoder in(wire);
  auto magic = in.u32();
  auto state = in.u32();
  TuningOffer offer;
  offer.tuning = decode_tuning(in);
  FERRY_TRY(in.finish("a peer's word on the tuning of a mailbox"));
  if (magic != kOfferMagic || state > static_cast<std::uint32_t>(State::kHas))
    return fail(Code::kInvalidArgument, "a peer's word on the tuning of a mailbox means nothing");
  FERRY_TRY(check_tuning(offer.tuning));
  offer.state = static_cast<State>(state);
  return offer;
}

Result<MailOpening> receive_hello(fabric::Channel& channel, const MailStart& start,
                                  Deadline deadline) {
  if (!start.early_hello.empty()) return start.early_hello;
  auto opening = FERRY_TRY(receive_opening(channel, deadline));
  if (is_offer(opening)) return receive_opening(channel, deadline);
  return opening;
}

}  // namespace ferry::mail
