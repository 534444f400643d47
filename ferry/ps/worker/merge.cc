#include <algorithm>
#include <chrono>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/math/sum.h"
#include "ferry/ps/worker/core_internal.h"

// Gradients of one host leave it as one: see the design note.

namespace ferry::ps {
namespace {

constexpr std::chrono::seconds kMeeting{2};
constexpr auto kOffered = offsetof(OfferBlock, offered);
constexpr auto kAlone = offsetof(OfferBlock, alone);
constexpr auto kCount = offsetof(OfferBlock, count);
constexpr auto kInvitation = offsetof(OfferBlock, invitation);
constexpr auto kDone = offsetof(OfferBlock, done);
constexpr auto kUndone = offsetof(OfferBlock, undone);

std::string name_of_memory(std::size_t index) { return fmt::format("ps.memory.{}", index); }

Result<Follower> link_to(fabric::Device& device, const Neighbour& to, Deadline deadline) {
  Follower follower;
  follower.rank = to.rank;
  follower.channel = FERRY_TRY(device.connect(to.endpoint, {.deadline = deadline}));
  if (follower.channel.peer().to_string() != to.device)
    return fail(Code::kUnavailable, "another one listens at {}", to.endpoint);
  const auto block = FERRY_TRY(follower.channel.look_up(OfferBlock::kName, deadline));
  const auto mapped = FERRY_TRY(follower.channel.map(block));
  if (mapped.size() < kOfferBytes) return fail(Code::kDataLoss, "its block is too small");
  follower.block = mapped.data();
  return follower;
}

}  // namespace

// Neighbours are reached through shared memory, whatever leads to the servers.
Status WorkerCore::open_for_neighbours() {
  auto options = options_.device;
  if (!job_.merge || options.provider == "auto" ||
      options.provider.find("shm") != std::string::npos)
    return {};
  options.provider = "shm," + options.provider;
  data_.reset();
  data_.emplace(FERRY_TRY(fabric::Device::open(options)));
  return {};
}

// Where a server maps memory, nothing leaves the host.
Status WorkerCore::begin_merging() {
  const bool maps = std::any_of(servers_.begin(), servers_.end(), [](const ServerLink& server) {
    return server.channel && server.channel.capabilities().maps_peer;
  });
  if (!job_.merge || maps) return {};
  merging_.block = FERRY_TRY(data_->allocate(kOfferBytes));
  const auto grant = FERRY_TRY(data_->grant(merging_.block, fabric::Rights::kReadWrite));
  merging_.on = true;
  return data_->publish(OfferBlock::kName, grant);
}

Status WorkerCore::show_memory(const fabric::Region& region, std::size_t index) {
  if (!merging_.on) return {};
  const auto grant = FERRY_TRY(data_->grant(region, fabric::Rights::kRead));
  return data_->publish(name_of_memory(index), grant);
}

Deadline WorkerCore::meeting() const { return Deadline::after(scaled(kMeeting, options_.device)); }

void WorkerCore::say(std::size_t word) {
  raise_word(merging_.block.data(), word, merging_.step);
  auto& callers = merging_.callers;
  std::erase_if(callers, [](const auto& caller) { return !caller.alive(); });
  while (auto caller = data_->accept(Deadline())) callers.push_back(*std::move(caller));
  for (const auto& caller : callers) caller.wake_peer();
}

// Once for each step, when the one before is known to be applied: an invitation was given before
// that.
void WorkerCore::choose_mode() {
  if (!merging_.on || merging_.step == pushing_) return;
  merging_.step = pushing_;
  merging_.mode = Merging::Mode::kAlone;
  merging_.merged = false;
  merging_.taken.clear();
  const auto invitation = OfferBlock::invitation_to(attempt_, pushing_);
  if (merging_.invitation == invitation)
    merging_.mode = Merging::Mode::kLeads;
  else if (load_word(merging_.block.data(), kInvitation) == invitation)
    merging_.mode = Merging::Mode::kFollows;
  else
    go_alone();
}

bool WorkerCore::handed_over() const {
  if (!merges()) return false;
  return merging_.merged || load_word(merging_.block.data(), kOffered) >= merging_.step;
}

void WorkerCore::go_alone() {
  const bool led = merging_.mode == Merging::Mode::kLeads;
  merging_.mode = Merging::Mode::kAlone;
  merging_.taken.clear();
  say(kAlone);
  for (const auto& follower : merging_.followers)
    if (led) follower.tell(kUndone, merging_.step);
}

// What was held back until now goes, too.
Status WorkerCore::push_alone(Deadline deadline) {
  if (!merges()) return {};
  const Posting posting(posting_);
  go_alone();
  const auto begun = attempt_;
  for (std::size_t each = 0; each < held_back().size() && attempt_ == begun; ++each) {
    const auto one = held_back()[each];
    FERRY_TRY(post_dense(one.parameter, Operation::kPush, one.gradient, one.back, deadline));
  }
  return {};
}

// A step in which anything else is pushed is pushed by each alone: nobody may wait for a leader
// while it waits for servers, which may be waiting for that leader.
Status WorkerCore::hold_back(const TensorLink& tensor, std::span<const std::byte> gradient,
                             Deadline deadline) {
  const bool floats = tensor.info.spec.type == tensor::ElementType::kF32 &&
                      reinterpret_cast<std::uintptr_t>(gradient.data()) % alignof(float) == 0;
  const bool can = floats && held_back().size() < OfferBlock::kMostOffers;
  return can ? Status() : push_alone(deadline);
}

Status WorkerCore::merge(Deadline deadline) {
  choose_mode();
  if (!merges() || merging_.merged) return {};  // a call that ran out of time comes again
  const Posting posting(posting_);
  const auto begun = attempt_;
  FERRY_TRY(merging_.mode == Merging::Mode::kLeads ? lead(deadline) : follow(deadline));
  merging_.merged = attempt_ == begun;
  return {};
}

Status WorkerCore::follow(Deadline deadline) {
  const auto begun = attempt_;
  auto* block = merging_.block.data();
  std::vector<Offer> offers;
  for (const auto& one : held_back()) {
    const auto offered = offer(one);
    if (!offered) return merge_not(offered.error(), deadline);
    offers.push_back(*offered);
  }
  std::memcpy(block + sizeof(OfferBlock), offers.data(), offers.size() * sizeof(Offer));
  word_at(block, kCount).store(offers.size());
  say(kOffered);
  const auto step = merging_.step;
  const auto answered = [this, block, step, begun] {
    return attempt_ != begun || load_word(block, kDone) >= step ||
           load_word(block, kUndone) >= step;
  };
  FERRY_TRY(wait_for(answered, deadline, "a worker of its host to push its gradients"));
  if (attempt_ != begun) return {};
  if (load_word(block, kDone) < step) return push_alone(deadline);
  stats_.merged += offers.size();
  return {};
}

// In memory that neighbours map: what is not is copied there.
Result<Offer> WorkerCore::offer(const Pushed& pushed) {
  auto& tensor = tensors_[pushed.parameter];
  auto bytes = pushed.gradient;
  if (memory_of(bytes) == nullptr) {
    if (!tensor.offered) {
      Memory memory;
      memory.region = FERRY_TRY(data_->allocate(tensor.bytes));
      memory.at.resize(servers_.size());
      FERRY_TRY(show_memory(memory.region, memories_.size()));
      tensor.offered = memories_.size();
      memories_.push_back(std::move(memory));
    }
    const auto& own = memories_[*tensor.offered].region;
    std::memcpy(own.data(), bytes.data(), bytes.size());
    bytes = own.bytes();
  }
  const auto* memory = memory_of(bytes);
  return Offer{.tensor = tensor.info.id,
               .memory = static_cast<std::uint32_t>(memory - memories_.data()),
               .offset = static_cast<std::uint64_t>(bytes.data() - memory->region.data())};
}

Status WorkerCore::lead(Deadline deadline) {
  const auto begun = attempt_;
  const auto step = merging_.step;
  const auto ready = [this, step, begun] {
    return attempt_ != begun ||
           std::all_of(merging_.followers.begin(), merging_.followers.end(), [&](const auto& each) {
             return each.word(kOffered) >= step || each.word(kAlone) >= step;
           });
  };
  FERRY_TRY(wait_for(ready, deadline, "workers of its host to end the step"));
  if (attempt_ != begun) return {};
  const auto sums = gather();
  if (!sums) return merge_not(sums.error(), deadline);
  if (merging_.taken.empty()) return push_alone(deadline);
  for (const auto& sum : *sums) {
    auto& tensor = tensors_[sum.parameter];
    math::sum({sum.sources, 1}, reinterpret_cast<float*>(tensor.sum.data()),
              tensor.bytes / sizeof(float));
    ++stats_.sums;
    FERRY_TRY(post_dense(sum.parameter, Operation::kPush, tensor.sum.bytes(), false, deadline));
    if (attempt_ != begun) return {};
  }
  return {};
}

Status WorkerCore::merge_not(const Error& why, Deadline deadline) {
  logger().info("worker {} does not merge step {}: {}", rank_, merging_.step, why.message());
  return push_alone(deadline);
}

// By rank: the leader has the lowest.
Result<std::vector<WorkerCore::HostSum>> WorkerCore::gather() {
  std::vector<HostSum> sums;
  const auto add = [&](Parameter parameter, std::span<const std::byte> gradient) {
    auto at = std::find_if(sums.begin(), sums.end(),
                           [&](const auto& sum) { return sum.parameter == parameter; });
    if (at == sums.end()) at = sums.insert(at, HostSum{parameter, {}});
    at->sources.push_back(reinterpret_cast<const float*>(gradient.data()));
  };
  for (const auto& one : held_back()) add(one.parameter, one.gradient);
  for (auto& follower : merging_.followers) {
    if (follower.word(kOffered) < merging_.step) continue;
    std::vector<Offer> offers(
        std::min<std::uint64_t>(follower.word(kCount), OfferBlock::kMostOffers));
    std::memcpy(offers.data(), follower.block + sizeof(OfferBlock), offers.size() * sizeof(Offer));
    for (const auto& offer : offers) {
      const auto parameter = FERRY_TRY(offered_tensor(offer));
      add(parameter, FERRY_TRY(offered_bytes(follower, offer, tensors_[parameter].bytes)));
    }
    merging_.taken.push_back(&follower);
  }
  // Before anything is pushed: until then each can still push alone.
  for (const auto& sum : sums) {
    auto& tensor = tensors_[sum.parameter];
    if (!tensor.sum) tensor.sum = FERRY_TRY(data_->allocate(tensor.bytes));
  }
  return sums;
}

Result<Parameter> WorkerCore::offered_tensor(const Offer& offer) const {
  for (std::size_t each = 0; each < tensors_.size(); ++each)
    if (tensors_[each].info.id == offer.tensor &&
        tensors_[each].info.spec.type == tensor::ElementType::kF32)
      return static_cast<Parameter>(each);
  return fail(Code::kNotFound, "it has not opened tensor {}, which another one pushes",
              offer.tensor);
}

Result<std::span<const std::byte>> WorkerCore::offered_bytes(Follower& follower, const Offer& offer,
                                                             std::uint64_t bytes) {
  auto& memories = follower.memories;
  const auto deadline = meeting();
  while (memories.size() <= offer.memory) {
    const auto region =
        FERRY_TRY(follower.channel.look_up(name_of_memory(memories.size()), deadline));
    memories.push_back(FERRY_TRY(follower.channel.map(region)));
  }
  const auto memory = memories[offer.memory];
  if (offer.offset > memory.size() || bytes > memory.size() - offer.offset ||
      offer.offset % alignof(float) != 0)
    return fail(Code::kDataLoss, "worker {} offers what it does not have", follower.rank);
  return memory.subspan(offer.offset, bytes);
}

// Before this worker's END of the step: nobody can have begun the next one.
void WorkerCore::end_merged(Deadline deadline) {
  if (!merging_.on) return;
  if (merging_.step == pushing_)
    for (const auto* follower : std::exchange(merging_.taken, {})) follower->tell(kDone, pushing_);
  // After the first step everybody who was there from the beginning has come.
  if (pushing_ <= 1) return;
  if (merging_.known != attempt_) {
    const auto met = meet_neighbours(std::min(deadline, meeting()));
    if (!met) logger().info("worker {} merges nothing: {}", rank_, met.error().message());
  }
  if (merging_.known != attempt_ || merging_.followers.empty()) return;
  merging_.invitation = OfferBlock::invitation_to(attempt_, pushing_ + 1);
  for (const auto& follower : merging_.followers) follower.tell(kInvitation, merging_.invitation);
}

// The lowest rank of a host leads. All who ask in one attempt are told the same.
Status WorkerCore::meet_neighbours(Deadline deadline) {
  const auto answer = FERRY_TRY(scheduler_->call(Ask::kNeighbours, {}, deadline));
  bootstrap::Decoder in(answer);
  const auto attempt = in.u32();
  std::vector<Neighbour> all;
  while (in.remaining() > 0 && in.ok()) {
    auto& each = all.emplace_back();
    each.rank = in.u32();
    each.device = in.string(kMostName);
    each.endpoint = in.string(kMostName);
  }
  FERRY_TRY(in.finish("a worker's neighbours"));
  if (attempt != attempt_) return {};  // the next step is begun anew
  merging_.known = attempt;
  auto old = std::exchange(merging_.followers, {});
  if (all.empty() || all.front().rank != rank_) return {};
  for (const auto& neighbour : all) {
    if (neighbour.rank == rank_) continue;
    const auto same = std::find_if(old.begin(), old.end(), [&](const Follower& each) {
      return each.rank == neighbour.rank && each.channel.alive() &&
             each.channel.peer().to_string() == neighbour.device;
    });
    auto linked = same != old.end() ? Result<Follower>(std::move(*same))
                                    : link_to(*data_, neighbour, deadline);
    if (linked)
      merging_.followers.push_back(*std::move(linked));
    else
      logger().info("worker {} does not merge with {}: {}", rank_, neighbour.rank,
                    linked.error().message());
  }
  return {};
}

}  // namespace ferry::ps
