#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/fabric/channel.h"
#include "ferry/fabric/region.h"
#include "ferry/ps/wire/layout_internal.h"

// Gradients of one host that leave it as one: see the design note. Neighbours share memory, and
// nothing else.

namespace ferry::ps {

// A gradient in memory that its worker has published.
struct Offer {
  std::uint32_t tensor = 0;
  std::uint32_t memory = 0;
  std::uint64_t offset = 0;
};

// In memory of each worker that merges. All words only grow.
struct OfferBlock {
  // Written by the worker itself.
  std::uint64_t offered = 0;  // the last step of which all gradients are offered
  std::uint64_t alone = 0;    // the last step that it pushes itself
  std::uint64_t count = 0;    // offers
  std::uint64_t unused[5] = {};
  // Written by its leader.
  std::uint64_t invitation = 0;
  std::uint64_t done = 0;    // the last step that the leader has pushed for it
  std::uint64_t undone = 0;  // the last step that the leader does not push for it after all
  std::uint64_t unused_by_leader[5] = {};

  // The step, if this is the job's attempt when it begins.
  static constexpr std::uint64_t invitation_to(std::uint32_t attempt, std::uint64_t step) {
    constexpr int kStepBits = 40;
    return std::uint64_t{attempt} << kStepBits | (step & ((std::uint64_t{1} << kStepBits) - 1));
  }
  static constexpr std::size_t kMostOffers = 4096;
  static constexpr std::string_view kName = "ps.offers";
};
static_assert(sizeof(OfferBlock) == 2 * kLine);
inline constexpr std::size_t kOfferBytes =
    sizeof(OfferBlock) + OfferBlock::kMostOffers * sizeof(Offer);

// A leader that was believed to be dead may still write: what is newer stays.
inline void raise_word(std::byte* memory, std::size_t offset, std::uint64_t value) {
  auto word = word_at(memory, offset);
  auto now = word.load();
  while (now < value && !word.compare_exchange_weak(now, value)) {
  }
}

// Where a worker of the host is. An endpoint alone does not say who listens there: containers have
// ports of their own, and a port may have been another worker's.
struct Neighbour {
  std::uint32_t rank = 0;
  std::string device;  // its id as text
  std::string endpoint;
};

// What a leader knows of one that it pushes for.
struct Follower {
  std::uint32_t rank = 0;
  fabric::Channel channel;
  std::byte* block = nullptr;  // its OfferBlock
  std::vector<std::span<const std::byte>> memories;

  std::uint64_t word(std::size_t offset) const { return load_word(block, offset); }
  void raise_and_wake(std::size_t offset, std::uint64_t value) const {
    raise_word(block, offset, value);
    channel.wake_peer();
  }
};

}  // namespace ferry::ps
