#include <cstdio>

#include "ferry/interop/grpc_endpoint/hub_internal.h"

namespace ferry::interop {

void Hub::disown() {
  device_.disown();
  doorbell_.disown();
  waker_.disown();
}

grpc_endpoint* Hub::make_endpoint(std::shared_ptr<Link> link, std::shared_ptr<Wire> wire,
                                  grpc_endpoint* under, FerryEndpoint::Names names) {
  return FerryEndpoint::make({doorbell_, endpoints_, waker_, background_}, std::move(link),
                             std::move(wire), under, std::move(names));
}

void Hub::print_report() {
  const auto& where = PluginOptions::get().stats;
  if (where.empty()) return;
  const auto text = links_.report() + slices_.report();
  std::FILE* file = where == "1" ? stderr : std::fopen(where.c_str(), "ae");
  if (file == nullptr) return;
  std::fputs(text.c_str(), file);
  if (file != stderr) std::fclose(file);
}

}  // namespace ferry::interop
