#pragma once

#include <memory>
#include <string>

#include "ferry/runtime/copies.h"
#include "ferry/runtime/rendezvous.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/shared_tensor.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::runtime {

// The ends of crossings over edges of ferry/transfer. `peer` is the task at the other end, for
// errors.
std::unique_ptr<SendEnd> static_send_end(transfer::StaticSender sender, const tensor::Spec& spec,
                                         Copies copies, const std::string& peer);
std::unique_ptr<SendEnd> dynamic_send_end(transfer::DynamicSender sender, const tensor::Spec& spec,
                                          Copies copies, const std::string& peer);
std::unique_ptr<ReceiveEnd> static_receive_end(transfer::StaticReceiver receiver,
                                               fabric::Channel& channel, Copies copies,
                                               const std::string& peer);
std::unique_ptr<ReceiveEnd> dynamic_receive_end(transfer::DynamicReceiver receiver,
                                                fabric::Channel& channel, Copies copies,
                                                const std::string& peer);
// `every_step`: step n reads version n or later; otherwise any version will do.
std::unique_ptr<ReceiveEnd> shared_receive_end(transfer::SharedReader reader,
                                               fabric::Channel& channel, bool every_step,
                                               const std::string& peer);

class FerrySharedVariable final : public SharedVariable {
 public:
  explicit FerrySharedVariable(transfer::SharedWriter opened) : writer(std::move(opened)) {}
  Result<tensor::Tensor> output(Deadline deadline) override { return writer.output(deadline); }
  Status publish() override {
    FERRY_TRY(writer.publish());
    return {};
  }
  transfer::SharedWriter writer;
};

}  // namespace ferry::runtime
