#pragma once

// The table of contents of the public API.

#include "ferry/base/clock.h"              // Deadline
#include "ferry/base/error.h"              // Error, Result, Status
#include "ferry/fabric/channel.h"          // Channel: one lane to one peer
#include "ferry/fabric/device.h"           // Device: one way out of this process
#include "ferry/fabric/region.h"           // Region: memory that peers can be let at
#include "ferry/fabric/transfer.h"         // Transfer: one operation in flight
#include "ferry/mail/mailbox.h"            // messages of any size
#include "ferry/mail/tuning.h"             // what a mailbox uses on a path
#include "ferry/tensor/tensor.h"           // Tensor: element type, shape, a share in a buffer
#include "ferry/transfer/dynamic_slot.h"   // tensors whose shape changes
#include "ferry/transfer/shared_tensor.h"  // one writer, readers in place
#include "ferry/transfer/static_slot.h"    // tensors of one shape

namespace ferry {
using fabric::Channel;
using fabric::Device;
using fabric::Options;
using fabric::Region;
using fabric::RemoteRegion;
using fabric::Rights;
using fabric::Transfer;
using fabric::WaitMode;
using mail::Mailbox;
using mail::MailRoom;
using mail::Message;
using mail::Tuning;
using mail::TuningUse;
using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using tensor::Tensor;
using transfer::Arrival;
using transfer::DynamicReceiver;
using transfer::DynamicSender;
using transfer::SharedReader;
using transfer::SharedWriter;
using transfer::StaticReceiver;
using transfer::StaticSender;
using transfer::Ticket;
}  // namespace ferry
