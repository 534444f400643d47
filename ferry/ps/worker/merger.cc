#include <algorithm>
#include <chrono>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/math/sum.h"
#include "ferry/ps/worker/merger_internal.h"

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

// Where a server maps memory, nothing leaves the host.
Status Merger::open() {
  if (!context_.job.merge || members_.maps_memory()) return {};
  block_ = FERRY_TRY(context_.data->allocate(kOfferBytes));
  const auto grant = FERRY_TRY(context_.data->grant(block_, fabric::Rights::kReadWrite));
  on_ = true;
  memories_.publish_all();
  return context_.data->publish(OfferBlock::kName, grant);
}

Deadline Merger::meeting() const {
  return Deadline::after(scaled(kMeeting, context_.options.device));
}

void Merger::publish_step(std::size_t word) {
  raise_word(block_.data(), word, step_);
  std::erase_if(callers_, [](const auto& caller) { return !caller.alive(); });
  while (auto caller = context_.data->accept(Deadline())) callers_.push_back(*std::move(caller));
  for (const auto& caller : callers_) caller.wake_peer();
}

// An invitation was given before the step before was applied, which it is when this is called.
void Merger::begin_step() {
  if (!on_ || step_ == log_.open()) return;
  step_ = log_.open();
  mode_ = Mode::kAlone;
  merged_ = false;
  taken_.clear();
  const auto invitation = OfferBlock::invitation_to(log_.attempt(), step_);
  if (invitation_ == invitation)
    mode_ = Mode::kLeads;
  else if (load_word(block_.data(), kInvitation) == invitation)
    mode_ = Mode::kFollows;
  else
    go_alone();
}

bool Merger::has_handed_over() const {
  return holds_back() && (merged_ || load_word(block_.data(), kOffered) >= step_);
}

void Merger::go_alone() {
  const bool led = mode_ == Mode::kLeads;
  mode_ = Mode::kAlone;
  taken_.clear();
  publish_step(kAlone);
  for (const auto& follower : followers_)
    if (led) follower.raise_and_wake(kUndone, step_);
}

void Merger::restart_step(std::uint64_t step) {
  if (!on_) return;
  step_ = step;
  go_alone();
}

Result<WaitOutcome> Merger::push_alone(Deadline deadline) {
  if (!holds_back()) return WaitOutcome::kReady;
  go_alone();
  return poster_.post_in_step([&]() -> Result<WaitOutcome> {
    for (const auto& one : log_.records(log_.open()))
      if (FERRY_TRY(poster_.post_record(one, log_.open(), deadline)) == WaitOutcome::kRestart)
        return WaitOutcome::kRestart;
    return WaitOutcome::kReady;
  });
}

// A step in which anything else is pushed is pushed by each alone: nobody may wait for a leader
// while it waits for servers, which may be waiting for that leader.
Result<WaitOutcome> Merger::push_alone_unless_mergeable(const TensorLink& tensor,
                                                        std::span<const std::byte> gradient,
                                                        Deadline deadline) {
  const bool floats = tensor.info.spec.type == tensor::ElementType::kF32 &&
                      reinterpret_cast<std::uintptr_t>(gradient.data()) % alignof(float) == 0;
  const bool can = floats && log_.records(log_.open()).size() < OfferBlock::kMostOffers;
  return can ? WaitOutcome::kReady : push_alone(deadline);
}

Result<WaitOutcome> Merger::merge(Deadline deadline) {
  begin_step();
  // A call that ran out of time comes again.
  if (!holds_back() || merged_) return WaitOutcome::kReady;
  const auto outcome = FERRY_TRY(mode_ == Mode::kLeads ? lead(deadline) : follow(deadline));
  merged_ = outcome == WaitOutcome::kReady;
  return outcome;
}

Result<WaitOutcome> Merger::follow(Deadline deadline) {
  auto* block = block_.data();
  std::vector<Offer> offers;
  for (const auto& one : log_.records(step_)) {
    const auto offered = offer(one);
    if (!offered) return give_up_merging(offered.error(), deadline);
    offers.push_back(*offered);
  }
  std::memcpy(block + sizeof(OfferBlock), offers.data(), offers.size() * sizeof(Offer));
  word_at(block, kCount).store(offers.size());
  publish_step(kOffered);
  InlineFunction<bool()> answered = [block, step = step_] {
    return load_word(block, kDone) >= step || load_word(block, kUndone) >= step;
  };
  const auto outcome = FERRY_TRY(waiter_.wait(answered, Newcomers::kLater, deadline,
                                              "a worker of its host to push its gradients"));
  if (outcome == WaitOutcome::kRestart) return outcome;
  if (load_word(block, kDone) < step_) return push_alone(deadline);
  context_.stats.merged += offers.size();
  return WaitOutcome::kReady;
}

Result<Offer> Merger::offer(const PushRecord& pushed) {
  auto& tensor = tensors_[pushed.parameter];
  auto bytes = pushed.gradient;
  if (memories_.find(bytes) == nullptr) {
    if (!tensor.offered)
      tensor.offered = FERRY_TRY(memories_.allocate_for_neighbours(tensor.bytes));
    const auto& own = memories_[*tensor.offered].region;
    std::memcpy(own.data(), bytes.data(), bytes.size());
    bytes = own.bytes();
  }
  const auto* memory = memories_.find(bytes);
  return Offer{.tensor = tensor.info.id,
               .memory = static_cast<std::uint32_t>(memories_.index_of(*memory)),
               .offset = static_cast<std::uint64_t>(bytes.data() - memory->region.data())};
}

Result<WaitOutcome> Merger::lead(Deadline deadline) {
  InlineFunction<bool()> offered = [this] {
    return std::all_of(followers_.begin(), followers_.end(), [this](const Follower& each) {
      return each.word(kOffered) >= step_ || each.word(kAlone) >= step_;
    });
  };
  const auto outcome = FERRY_TRY(
      waiter_.wait(offered, Newcomers::kLater, deadline, "workers of its host to end the step"));
  if (outcome == WaitOutcome::kRestart) return outcome;
  const auto sums = gather();
  if (!sums) return give_up_merging(sums.error(), deadline);
  if (taken_.empty()) return push_alone(deadline);
  return poster_.post_in_step([&]() -> Result<WaitOutcome> {
    for (const auto& sum : *sums)
      if (FERRY_TRY(post_sum(sum, deadline)) == WaitOutcome::kRestart) return WaitOutcome::kRestart;
    return WaitOutcome::kReady;
  });
}

Result<WaitOutcome> Merger::post_sum(const HostSum& sum, Deadline deadline) {
  auto& tensor = tensors_[sum.parameter];
  math::sum({sum.sources, 1}, reinterpret_cast<float*>(tensor.sum.data()),
            tensor.bytes / sizeof(float));
  ++context_.stats.sums;
  DensePost post{.parameter = sum.parameter, .values = tensor.sum.bytes(), .step = step_};
  return poster_.post_dense(post, deadline);
}

Result<WaitOutcome> Merger::give_up_merging(const Error& why, Deadline deadline) {
  logger().info("worker {} does not merge step {}: {}", context_.rank, step_, why.message());
  return push_alone(deadline);
}

Result<std::vector<Merger::HostSum>> Merger::gather() {
  std::vector<HostSum> sums;
  const auto add = [&](Parameter parameter, std::span<const std::byte> gradient) {
    auto at = std::find_if(sums.begin(), sums.end(),
                           [&](const auto& sum) { return sum.parameter == parameter; });
    if (at == sums.end()) at = sums.insert(at, HostSum{parameter, {}});
    at->sources.push_back(reinterpret_cast<const float*>(gradient.data()));
  };
  for (const auto& one : log_.records(step_)) add(one.parameter, one.gradient);
  for (auto& follower : followers_) {
    if (follower.word(kOffered) < step_) continue;
    std::vector<Offer> offers(
        std::min<std::uint64_t>(follower.word(kCount), OfferBlock::kMostOffers));
    std::memcpy(offers.data(), follower.block + sizeof(OfferBlock), offers.size() * sizeof(Offer));
    for (const auto& offer : offers) {
      const auto parameter = FERRY_TRY(offered_tensor(offer));
      add(parameter, FERRY_TRY(offered_bytes(follower, offer, tensors_[parameter].bytes)));
    }
    taken_.push_back(&follower);
  }
  // Before anything is pushed: until then each can still push alone.
  for (const auto& sum : sums) {
    auto& tensor = tensors_[sum.parameter];
    if (!tensor.sum) tensor.sum = FERRY_TRY(context_.data->allocate(tensor.bytes));
  }
  return sums;
}

Result<Parameter> Merger::offered_tensor(const Offer& offer) {
  const auto known = tensors_.find_id(offer.tensor);
  if (known && tensors_[*known].info.spec.type == tensor::ElementType::kF32) return *known;
  return fail(Code::kNotFound, "it has not opened tensor {}, which another one pushes",
              offer.tensor);
}

Result<std::span<const std::byte>> Merger::offered_bytes(Follower& follower, const Offer& offer,
                                                         std::uint64_t bytes) {
  auto& memories = follower.memories;
  const auto deadline = meeting();
  while (memories.size() <= offer.memory) {
    const auto region =
        FERRY_TRY(follower.channel.look_up(MemoryTable::name_of(memories.size()), deadline));
    memories.push_back(FERRY_TRY(follower.channel.map(region)));
  }
  const auto memory = memories[offer.memory];
  if (offer.offset > memory.size() || bytes > memory.size() - offer.offset ||
      offer.offset % alignof(float) != 0)
    return fail(Code::kDataLoss, "worker {} offers what it does not have", follower.rank);
  return memory.subspan(offer.offset, bytes);
}

void Merger::before_end(std::uint64_t step, Deadline deadline) {
  if (!on_) return;
  if (step_ == step)
    for (const auto* follower : std::exchange(taken_, {})) follower->raise_and_wake(kDone, step);
  // After the first step everybody who was there from the beginning has come.
  if (step <= 1) return;
  if (known_ != log_.attempt()) {
    const auto met = connect_neighbours(std::min(deadline, meeting()));
    if (!met) logger().info("worker {} merges nothing: {}", context_.rank, met.error().message());
  }
  if (known_ != log_.attempt() || followers_.empty()) return;
  invitation_ = OfferBlock::invitation_to(log_.attempt(), step + 1);
  for (const auto& follower : followers_) follower.raise_and_wake(kInvitation, invitation_);
}

Status Merger::connect_neighbours(Deadline deadline) {
  const auto answer = FERRY_TRY(context_.scheduler->call(Ask::kNeighbours, {}, deadline));
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
  if (attempt != log_.attempt()) return {};  // the next step is restarted
  known_ = attempt;
  auto old = std::exchange(followers_, {});
  if (all.empty() || all.front().rank != context_.rank) return {};
  for (const auto& neighbour : all) {
    if (neighbour.rank == context_.rank) continue;
    const auto same = std::find_if(old.begin(), old.end(), [&](const Follower& each) {
      return each.rank == neighbour.rank && each.channel.alive() &&
             each.channel.peer().to_string() == neighbour.device;
    });
    auto linked = same != old.end() ? Result<Follower>(std::move(*same))
                                    : link_to(*context_.data, neighbour, deadline);
    if (linked)
      followers_.push_back(*std::move(linked));
    else
      logger().info("worker {} does not merge with {}: {}", context_.rank, neighbour.rank,
                    linked.error().message());
  }
  return {};
}

}  // namespace ferry::ps
