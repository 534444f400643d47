#pragma once

#include "ferry/fabric/device.h"
#include "ferry/mail/tuning.h"

namespace ferry::mail {

struct CalibrateOptions {
  // How long rounds are measured. Opening what they need comes on top: some tens of milliseconds.
  Nanos time = std::chrono::milliseconds(300);
  // A slow path may need longer; what was not measured by then keeps its defaults.
  Nanos at_most = std::chrono::seconds(1);
};

// Measures the path together with the peer, which calls the same, and chooses the values. Both get
// the result. Takes about 32 MiB of the device's memory meanwhile; nobody else may use the small
// messages of the channel. The time is that of the end that leads. After a failure the channel is
// of no more use for mailboxes.
Result<Calibration> calibrate(fabric::Device& device, fabric::Channel& channel,
                              CalibrateOptions options, Deadline deadline);

// Whether this end of the channel is the one that leads.
bool leads_calibration(const fabric::Device& device, const fabric::Channel& channel);

}  // namespace ferry::mail
