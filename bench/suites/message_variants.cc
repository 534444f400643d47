#include <fmt/format.h>

#include <algorithm>

#include "bench/driver/variants.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

// Limits and peers that stand beside messages.
constexpr const char* kBesideMessages[] = {"shm-memcpy", "tcp-spin", "tcp-block", "grpc-slices",
                                           "grpc-bytes"};

constexpr std::uint64_t kFixedEager[] = {1 << 10, 8 << 10, 64 << 10};
constexpr std::uint64_t kFixedChunks[] = {128 << 10, 512 << 10, 2 << 20};

Variant message_over(const std::string& provider) {
  return {.id = "message-" + provider,
          .title = "message, " + provider,
          .selector = provider,
          .args = {"message-round", "--provider", provider},
          .memory = 4.2};
}

// With a value that is the same at every size, to stand beside the tuned one.
Variant message_fixed(const std::string& provider, const std::string& what, std::uint64_t bytes) {
  auto variant = message_over(provider);
  const auto ki = bytes / 1024;
  variant.id += fmt::format("-{}-{}k", what, ki);
  variant.title += fmt::format(", {} {}", what, cli::size_text(bytes));
  variant.args.insert(variant.args.end(), {"--" + what, std::to_string(bytes)});
  return variant;
}

std::vector<Variant> fixed_eager(const std::string& provider) {
  std::vector<Variant> all;
  for (auto bytes : kFixedEager) {
    all.push_back(message_fixed(provider, "eager", bytes));
    all.back().min_bytes = kEagerMatters.least;
    all.back().max_bytes = kEagerMatters.most;
  }
  return all;
}

std::vector<Variant> fixed_chunks(const std::string& provider) {
  std::vector<Variant> all;
  for (auto bytes : kFixedChunks) {
    all.push_back(message_fixed(provider, "chunk", bytes));
    all.back().min_bytes = kChunksMatter.least;
  }
  return all;
}

std::vector<Variant> make_message_variants() {
  std::vector<Variant> all = {message_over("shm"), message_over("tcp"), message_over("verbs")};
  // What is sent from a mailbox's own memory by shm is not read in chunks.
  for (auto part : {fixed_eager("shm"), fixed_eager("tcp"), fixed_chunks("tcp")})
    all.insert(all.end(), part.begin(), part.end());
  for (const auto& variant : all_variants())
    if (std::find(std::begin(kBesideMessages), std::end(kBesideMessages), variant.id) !=
        std::end(kBesideMessages))
      all.push_back(variant);
  return all;
}

}  // namespace

std::vector<std::string> fixed_variants(const std::string& of) {
  std::vector<std::string> ids;
  for (const auto& variant : message_variants())
    if (variant.id.starts_with(of + "-")) ids.push_back(variant.id);
  return ids;
}

const std::vector<Variant>& message_variants() {
  static const std::vector<Variant> kAll = make_message_variants();
  return kAll;
}

}  // namespace ferry::bench
