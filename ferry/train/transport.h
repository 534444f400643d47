#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/fabric/types.h"
#include "ferry/mail/wait_spin.h"
#include "ferry/runtime/buffers.h"
#include "ferry/runtime/rendezvous.h"

namespace ferry::train {

// How tensors get from task to task (docs/design/dataflow.md).
enum class Transport { kFerry, kFerryCopy, kFerryPrivate, kGrpc, kGrpcFerry };
std::string_view name_of(Transport transport);
Result<Transport> transport_named(std::string_view name);
std::vector<std::string> transport_names();

struct StationOptions {
  Transport transport = Transport::kFerry;
  std::string provider = "auto";
  std::string secret;  // or the file that holds it
  std::string secret_file;
  std::string listen = "127.0.0.1:0";
  Nanos spin = fabric::Options().spin;  // of the ferry transports
};

// One task's end of a transport: where it is found, and the rendezvous once all are known.
class Station {
 public:
  // kUnimplemented for a transport that this program was built without.
  static Result<std::unique_ptr<Station>> open(const StationOptions& options);
  virtual ~Station() = default;

  virtual std::string endpoint() const = 0;
  // The others', by task. `program` is the same for all of them, or they do not meet. Once.
  virtual runtime::Rendezvous& meet(const std::string& task, const std::string& program,
                                    const std::map<std::string, std::string>& endpoints) = 0;
  // Waits with the spin that is kept for the paths to the others, unless the options say one. After
  // the rendezvous was opened. None: the transport does not wait by the library.
  virtual std::optional<mail::SpinInUse> use_kept_spin() { return {}; }
  // What registering memory took, of each provider that the task's channels run over. After meet()
  // and the opening of its rendezvous. Over gRPC: none.
  virtual std::vector<fabric::RegistrationStats> registrations() const { return {}; }
  // Memory that peers may touch.
  virtual runtime::BlockMaker registered() = 0;
};

}  // namespace ferry::train
