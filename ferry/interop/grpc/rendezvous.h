#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ferry/runtime/rendezvous.h"

namespace ferry::interop {

// That gRPC is to run over mailboxes (grpc_endpoint/), and how the peers are reached.
struct GrpcEndpoint {
  std::string provider;  // as fabric::Options::provider
  std::string secret;    // or the file that holds it
  std::string secret_file;
};

struct GrpcRendezvousOptions {
  std::string listen;                    // host:port; port 0 picks a free one
  std::optional<GrpcEndpoint> endpoint;  // without: gRPC as it is, on TCP
};

// Crossings over gRPC, as TensorFlow has them: at the beginning of a step the receiver asks the
// sender's task for each tensor, and gets its raw bytes once they are there. The sender hands its
// memory to gRPC without a copy; the receiver copies gRPC's pieces into one buffer. One thread, and
// one more that serves gRPC.
class GrpcRendezvous final : public runtime::Rendezvous {
 public:
  // kUnavailable if the port is taken; kUnimplemented if this program has no endpoint for its gRPC,
  // kFailedPrecondition if it was turned off. Which endpoint is the same for a whole process.
  static Result<std::unique_ptr<GrpcRendezvous>> listen(const GrpcRendezvousOptions& options);
  ~GrpcRendezvous() override;

  std::string endpoint() const;
  // Where the tasks are; before open().
  void know(std::map<std::string, std::string> endpoints);

  // With an endpoint, kUnavailable if a peer was reached by TCP all the same.
  Status open(const graph::Partition& partition, const std::string& task,
              Deadline deadline) override;
  runtime::SendEnd* send_end(std::uint32_t crossing) override;
  runtime::ReceiveEnd* receive_end(std::uint32_t crossing) override;
  runtime::SharedVariable* shared_variable(const std::string&) override { return nullptr; }
  bool wait_until(InlineFunction<bool()> ready, Deadline deadline) override;
  // A step ends when gRPC needs nothing of it any more.
  Status leave(Deadline) override { return {}; }
  void wake() override;
  runtime::CrossingStats stats() const override;

 private:
  class Core;
  explicit GrpcRendezvous(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace ferry::interop
