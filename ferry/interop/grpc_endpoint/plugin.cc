#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/entry_internal.h"
#include "ferry/interop/grpc_endpoint/handshakers_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"
#include "ferry/interop/grpc_endpoint/unserved_internal.h"

namespace ferry::interop {

namespace {

void add_handshakers(grpc_core::CoreConfiguration::Builder* builder) {
  auto* registry = reinterpret_cast<grpc_core::HandshakerRegistry::Builder*>(
      reinterpret_cast<std::byte*>(builder) + kHandshakerRegistryAt);
  registry->RegisterHandshakerFactory(grpc_core::HANDSHAKER_CLIENT, client_factory(process_hub()));
  registry->RegisterHandshakerFactory(grpc_core::HANDSHAKER_SERVER, server_factory(process_hub()));
}

// Why gRPC is left alone; null if it is not.
const char* reason_to_step_aside() {
  if (std::strcmp(grpc_version_string(), kGrpcCoreVersion) != 0) return "its version is not known";
  const auto* used = static_cast<std::atomic<void*>*>(::dlsym(RTLD_DEFAULT, kConfigurationSymbol));
  if (used == nullptr || &grpc_core::CoreConfiguration::RegisterBuilder == nullptr)
    return "its internals are not visible";
  if (used->load(std::memory_order_acquire) != nullptr)
    return "it was used before the plug-in was loaded; link the plug-in, or preload it";
  return nullptr;
}

bool let_in = false;  // written before main()

// Before main(), and before any thread: gRPC must not have been used yet.
__attribute__((constructor)) void load_plugin() {
  if (&grpc_version_string == nullptr) return;  // a program without gRPC, or with one of its own
  if (!PluginOptions::get().on) return;
  if (const char* reason = reason_to_step_aside()) {
    silence_unserved();
    logger().warn("gRPC (core {}) stays on TCP: {}. Known is gRPC {}, core {}",
                  grpc_version_string(), reason, kGrpcVersion, kGrpcCoreVersion);
    return;
  }
  set_served_grpc(::dlsym(RTLD_DEFAULT, kConfigurationSymbol));
  grpc_core::CoreConfiguration::RegisterBuilder(add_handshakers);
  let_in = true;
  ::pthread_atfork(nullptr, nullptr, [] { process_hub().disown(); });
  if (!PluginOptions::get().stats.empty()) std::atexit([] { process_hub().print_report(); });
}

}  // namespace

Hub& process_hub() {
  static Hub* const hub = new Hub;
  return *hub;
}

Status plugin_status() {
  if (let_in) return {};
  return fail(Code::kFailedPrecondition,
              "gRPC is not served by the plug-in: FERRY_GRPC=off, or a line of the log says why");
}

PluginTraffic& PluginTraffic::operator+=(const PluginTraffic& other) {
  dialled += other.dialled;
  sent_bytes += other.sent_bytes;
  taken_bytes += other.taken_bytes;
  lent_bytes += other.lent_bytes;
  return *this;
}

PluginTraffic plugin_traffic() { return process_hub().links().traffic(); }

}  // namespace ferry::interop
