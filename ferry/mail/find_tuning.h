#pragma once

#include <string>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/tuning.h"

// How programs that open no mailbox at first, or cannot wait for a calibration when they do, come
// by the values of a path (docs/design/tuning.md).

namespace ferry::mail {

struct FoundTuning {
  Tuning tuning;
  TuningSource source = TuningSource::kDefault;
};

// Finds the values of the channel's path together with the peer, which calls the same: what one of
// them has kept, or what both measure now, as `use` allows; and keeps it in the folder (empty:
// TuningCache::default_folder()). Takes about a third of a second if it measures. Nobody else may
// use the small messages of the channel, which is of no more use after a failure: take one that was
// opened for this.
Result<FoundTuning> find_tuning(fabric::Device& device, fabric::Channel& channel, TuningUse use,
                                const std::string& folder, Deadline deadline);

// What is kept here for the channel's path. Asks nobody.
FoundTuning kept_tuning(const fabric::Channel& channel, const std::string& folder = {});

}  // namespace ferry::mail
