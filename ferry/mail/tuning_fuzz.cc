#include <string_view>

#include "ferry/mail/calibrate_internal.h"
#include "ferry/mail/mail_opening_internal.h"
#include "ferry/mail/tuning_cache.h"

// Tunings come from files and peers: whatever is taken is within its bounds.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace ferry::mail;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto entry = TuningEntry::from_text(text); entry && !check_tuning(entry->found.tuning))
    __builtin_trap();
  std::span wire(reinterpret_cast<const std::byte*>(data), size);
  if (auto offer = TuningOffer::from_wire(wire); offer && !check_tuning(offer->tuning))
    __builtin_trap();
  if (auto command = CalibrateCommand::from_wire(wire); command && !check_tuning(command->tuning))
    __builtin_trap();
  return 0;
}
