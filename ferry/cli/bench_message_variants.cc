#include <algorithm>

#include "ferry/cli/bench_variants.h"

namespace ferry::cli {
namespace {

// Limits and peers that stand beside messages.
constexpr const char* kBesideMessages[] = {"shm-memcpy", "tcp-spin", "tcp-block", "grpc-slices",
                                           "grpc-bytes"};

Variant message_over(const std::string& provider) {
  return {.id = "message-" + provider,
          .title = "message, " + provider,
          .selector = provider,
          .args = {"bench-message-round", "--provider", provider},
          .memory = 4.2};
}

std::vector<Variant> make_message_variants() {
  std::vector<Variant> all = {message_over("shm"), message_over("tcp"), message_over("verbs")};
  for (const auto& variant : all_variants())
    if (std::find(std::begin(kBesideMessages), std::end(kBesideMessages), variant.id) !=
        std::end(kBesideMessages))
      all.push_back(variant);
  return all;
}

}  // namespace

const std::vector<Variant>& message_variants() {
  static const std::vector<Variant> kAll = make_message_variants();
  return kAll;
}

}  // namespace ferry::cli
