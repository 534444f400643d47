// Data path.
#include <algorithm>

#include "ferry/fabric/batch_internal.h"

namespace ferry::fabric {

struct Batch::State {
  std::atomic<std::uint64_t> left;  // children, and the poster until take()
  std::atomic<bool> failed;
  bool flagged;
  ChannelCore* flag_core;
  Flag flag;
  Deadline deadline;
};

Batch::Batch(ChannelCore& core, Request& whole, std::size_t count)
    : parent_(core.shared().operations.make(whole, core.lane().loop())) {
  auto* state = new (&parent_->scratch<State>()) State;
  state->left.store(count + 1, std::memory_order_relaxed);
  state->failed.store(false, std::memory_order_relaxed);
  state->flagged = false;
}

void Batch::post(ChannelCore& core, Request& child) {
  child.deadline = parent_->deadline();
  child.callback = [parent = parent_](const Status& status) { child_ended(parent, status); };
  auto transfer = core.post(child);  // its end is told by the callback; the handle may go
}

void Batch::after(ChannelCore& core, const Flag& flag, Deadline deadline) {
  auto& state = parent_->scratch<State>();
  state.flag_core = &core;
  state.flag = flag;
  state.deadline = deadline;
  state.flagged = true;
}

Transfer Batch::take() {
  auto transfer = Transfer::pending(parent_);
  child_ended(parent_, {});
  return transfer;
}

void Batch::child_ended(Operation* parent, const Status& status) {
  auto& state = parent->scratch<State>();
  if (!status && !state.failed.exchange(true)) parent->set_error(status.error());
  if (state.left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (state.failed.load(std::memory_order_relaxed))
    return parent->finish(tl::unexpected<Error>(parent->error()));
  if (!state.flagged) return parent->finish({});
  state.flagged = false;
  state.left.store(1, std::memory_order_relaxed);
  Flag flag = state.flag;
  Request last;
  last.verb = Verb::kWrite;
  last.remote = flag.region;
  last.offset = flag.offset;
  last.flag = &flag;
  last.deadline = state.deadline;
  last.callback = [parent](const Status& ended) { child_ended(parent, ended); };
  auto transfer = state.flag_core->post(last);
}

Transfer post_striped(ChannelCore& core, std::span<const std::shared_ptr<ChannelCore>> others,
                      Request& request) {
  auto lanes = others.size() + 1;
  constexpr std::size_t kAlign = 4096;
  auto piece = ((request.length + lanes - 1) / lanes + kAlign - 1) / kAlign * kAlign;
  auto count = (request.length + piece - 1) / piece;
  Batch batch(core, request, count);
  if (request.flag != nullptr) batch.after(core, *request.flag, request.deadline);
  for (std::size_t i = 0; i < count; ++i) {
    Request child;
    child.verb = request.verb;
    child.local = request.local + i * piece;
    child.length = std::min(piece, request.length - i * piece);
    child.remote = request.remote;
    child.offset = request.offset + i * piece;
    batch.post(i == 0 ? core : *others[i - 1], child);
  }
  return batch.take();
}

}  // namespace ferry::fabric
