#include <algorithm>

#include "bench/driver/variants.h"

namespace ferry::bench {
namespace {

// How a tensor of ours crosses; the paper's figure has a line for each.
struct TensorWay {
  const char* id;
  const char* title;
  const char* provider;
  const char* protocol;
  bool in_place;
  bool sender_copy;
  bool receiver_copy;
};

constexpr TensorWay kTensorWays[] = {
    {"static-in-place", "static, in place", "shm", "static", true, false, false},
    {"static-copy", "static, by copy", "shm", "static", false, false, false},
    {"static-sender-copy", "static, sender copies first", "shm", "static", false, true, false},
    {"static-private", "private buffers on both sides", "shm", "static", false, true, true},
    {"dynamic", "dynamic, in place", "shm", "dynamic", true, false, false},
    {"dynamic-copy", "dynamic, by copy", "shm", "dynamic", false, false, false},
    {"static-tcp", "static, tcp", "tcp", "static", true, false, false},
    {"static-tcp-sender-copy", "static, tcp, sender copies first", "tcp", "static", true, true,
     false},
    {"static-tcp-private", "private buffers on both sides, tcp", "tcp", "static", true, true, true},
    {"dynamic-tcp", "dynamic, tcp", "tcp", "dynamic", true, false, false},
    {"static-verbs", "static, verbs", "verbs", "static", true, false, false},
    {"dynamic-verbs", "dynamic, verbs", "verbs", "dynamic", true, false, false},
};

// Limits and peers that stand beside them.
constexpr const char* kBeside[] = {"shm-in-place", "shm-memcpy",  "shm-memcpy-nt", "tcp-spin",
                                   "tcp-block",    "grpc-slices", "grpc-bytes"};

Variant variant_of(const TensorWay& way) {
  const auto flag = [](bool on) { return std::string(on ? "1" : "0"); };
  return {.id = way.id,
          .title = way.title,
          .selector = way.provider,
          .args = {"tensor-round", "--provider", way.provider, "--protocol", way.protocol,
                   "--in-place", flag(way.in_place), "--sender-copy", flag(way.sender_copy),
                   "--receiver-copy", flag(way.receiver_copy)},
          .memory = 4.2};
}

std::vector<Variant> make_tensor_variants() {
  std::vector<Variant> all;
  for (const auto& way : kTensorWays) all.push_back(variant_of(way));
  all.push_back({.id = "one-process",
                 .title = "limit: made and read by one process",
                 .owner = Owner::kLimit,
                 .selector = "memcpy",
                 .program = "ferry-limit-one-process"});
  for (const auto& variant : all_variants())
    if (std::find(std::begin(kBeside), std::end(kBeside), variant.id) != std::end(kBeside))
      all.push_back(variant);
  return all;
}

}  // namespace

const std::vector<Variant>& tensor_variants() {
  static const std::vector<Variant> kAll = make_tensor_variants();
  return kAll;
}

}  // namespace ferry::bench
