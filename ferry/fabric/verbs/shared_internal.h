#pragma once

#include <algorithm>
#include <memory>

#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/verbs/exposures_internal.h"
#include "ferry/fabric/verbs/memory_internal.h"

namespace ferry::fabric::verbs {

// What all lanes of one provider share. Thread-safe; outlives queues and lanes.
struct Shared {
  Shared(ProviderContext& context_in, std::unique_ptr<Adapter> adapter_in)
      : context(context_in),
        adapter(std::move(adapter_in)),
        buffers(*adapter),
        blocks(*adapter),
        cache(make_cache(*adapter)),
        exposures(*adapter, blocks, *context.grants, patient(std::chrono::milliseconds(500))) {}

  // A span of time as long as this host's slowness asks for.
  Nanos patient(Nanos span) const {
    return Nanos(static_cast<std::int64_t>(static_cast<double>(span.count()) *
                                           std::max(context.options->patience, 1.0)));
  }

  ProviderContext& context;
  std::unique_ptr<Adapter> adapter;
  Buffers buffers;
  BlockKeys blocks;
  std::unique_ptr<memory::RegistrationCache> cache;
  Exposures exposures;
};

}  // namespace ferry::fabric::verbs
