#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ferry/runtime/copies.h"
#include "ferry/runtime/links.h"
#include "ferry/runtime/rendezvous.h"

namespace ferry::runtime {

// Crossings over the library's own edges: static, dynamic and shared. One thread, but for the
// shares of received tensors.
class FerryRendezvous final : public Rendezvous {
 public:
  using Copies = runtime::Copies;

  FerryRendezvous(Links& links, Copies copies) : links_(links), copies_(copies) {}
  ~FerryRendezvous() override;

  Status open(const graph::Partition& partition, const std::string& task,
              Deadline deadline) override;
  SendEnd* send_end(std::uint32_t crossing) override { return sends_[crossing].get(); }
  ReceiveEnd* receive_end(std::uint32_t crossing) override { return receives_[crossing].get(); }
  SharedVariable* shared_variable(const std::string& name) override;
  bool wait_until(InlineFunction<bool()> ready, Deadline deadline) override;
  Status leave(Deadline deadline) override { return links_.part(deadline); }
  void wake() override { links_.device().wake_waiters(); }
  CrossingStats stats() const override;

 private:
  class Opening;

  Links& links_;
  const Copies copies_;
  std::vector<std::unique_ptr<SendEnd>> sends_;        // by crossing
  std::vector<std::unique_ptr<ReceiveEnd>> receives_;  // by crossing
  std::map<std::string, std::unique_ptr<SharedVariable>> shared_;
};

}  // namespace ferry::runtime
