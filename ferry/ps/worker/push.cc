#include <algorithm>
#include <chrono>
#include <cstring>

#include "ferry/base/log.h"
#include "ferry/ps/worker/core_internal.h"

// From a gradient to entries in rings.

namespace ferry::ps {
namespace {

// Whether all exponents leave room: a value of only ones there is infinite or not a number.
template <class Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent) {
  const auto* values = reinterpret_cast<const Bits*>(bytes.data());
  const auto count = bytes.size() / sizeof(Bits);
  Bits bad = 0;
  for (std::size_t each = 0; each < count; ++each)
    bad |= static_cast<Bits>((values[each] & exponent) == exponent ? 1 : 0);
  return bad == 0;
}

bool finite(tensor::ElementType type, std::span<const std::byte> bytes) {
  switch (type) {
    case tensor::ElementType::kF16:
      return all_finite<std::uint16_t>(bytes, 0x7c00);
    case tensor::ElementType::kBf16:
      return all_finite<std::uint16_t>(bytes, 0x7f80);
    default:
      return all_finite<std::uint32_t>(bytes, 0x7f800000);
  }
}

}  // namespace

Status WorkerCore::check_gradient(const TensorLink& tensor, std::span<const std::byte> gradient) {
  if (options_.not_finite == NotFinite::kIgnore) return {};
  if (finite(tensor.info.spec.type, gradient)) return {};
  ++stats_.not_finite;
  if (options_.not_finite == NotFinite::kCount) return {};
  return fail(Code::kInvalidArgument,
              "the gradient of '{}' has values that are not finite; nothing was sent",
              tensor.info.name);
}

// Whoever is a step ahead waits: only one step is open at a time.
Status WorkerCore::begin_push(TensorLink& tensor, Deadline deadline) {
  pushing_ = step_ + 1;
  if (!sync()) return {};
  if (tensor.pushed_in == pushing_)
    return fail(Code::kFailedPrecondition, "'{}' was pushed in step {} already; end the step first",
                tensor.info.name, pushing_);
  FERRY_TRY(whole(deadline));
  FERRY_TRY(flush(deadline));
  FERRY_TRY(look_around(deadline));
  const bool first = std::none_of(tensors_.begin(), tensors_.end(), [this](const TensorLink& each) {
    return each.pushed_in == pushing_;
  });
  if (handed_over())
    return fail(
        Code::kFailedPrecondition,
        "'{}' comes after an end_step() of step {} that ran out of time, when its gradients "
        "were merged already; end the step first",
        tensor.info.name, pushing_);
  if (first) pushed_.clear();
  pushed_step_ = pushing_;
  tensor.pushed_in = pushing_;
  choose_mode();
  return {};
}

Status WorkerCore::push(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline,
                        const PushOptions& options) {
  auto& to = *FERRY_TRY(tensor(parameter));
  if (gradient.size() != to.bytes)
    return fail(Code::kInvalidArgument, "'{}' is {}, which has {} bytes; the gradient has {}",
                to.info.name, to.info.spec.to_string(), to.bytes, gradient.size());
  FERRY_TRY(check_gradient(to, gradient));
  const bool copied = sync() && options.copied;
  const auto room =
      copied ? FERRY_TRY(room_for_copy(parameter, gradient, deadline)) : std::span<std::byte>();
  FERRY_TRY(begin_push(to, deadline));
  if (copied && !gradient.empty()) {
    std::memcpy(room.data(), gradient.data(), gradient.size());
    gradient = room;
  }
  if (merges()) FERRY_TRY(hold_back(to, gradient, deadline));
  ++stats_.pushes;
  if (sync())
    pushed_.push_back(
        {.parameter = parameter, .gradient = gradient, .rows = nullptr, .back = options.back});
  if (merges()) return {};
  return post_dense(parameter, Operation::kPush, gradient, options.back, deadline);
}

Status WorkerCore::push_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                             std::span<const std::byte> values, Deadline deadline) {
  auto& to = *FERRY_TRY(tensor(parameter));
  const auto row_bytes = to.row_bytes;
  const auto most = job_.block_bytes / (row_bytes + sizeof(std::uint64_t));  // rows in a slot
  if (most == 0 || to.info.block_bytes % row_bytes != 0)
    return fail(Code::kUnimplemented, "rows of '{}' have {} bytes, blocks of the job {}: too few",
                to.info.name, row_bytes, job_.block_bytes);
  if (values.size() != rows.size() * row_bytes)
    return fail(Code::kInvalidArgument, "{} rows of '{}' have {} bytes; {} were given", rows.size(),
                to.info.name, rows.size() * row_bytes, values.size());
  const auto all = to.bytes / row_bytes;
  for (const auto row : rows)
    if (row >= all)
      return fail(Code::kOutOfRange, "row {} of '{}', which has {}", row, to.info.name, all);
  FERRY_TRY(check_gradient(to, values));
  FERRY_TRY(begin_push(to, deadline));
  FERRY_TRY(push_alone(deadline));
  ++stats_.pushes;
  std::vector<std::vector<std::size_t>> by_part(to.info.runs.size());
  for (std::size_t each = 0; each < rows.size(); ++each)
    by_part[part_at(to, rows[each] * row_bytes)].push_back(each);
  std::vector<Pushed> payloads;
  for (std::uint32_t part = 0; part < by_part.size(); ++part) {
    auto& mine = by_part[part];
    std::stable_sort(mine.begin(), mine.end(), [&](auto a, auto b) { return rows[a] < rows[b]; });
    const auto first_row = to.parts[part].run.offset / row_bytes;
    for (std::size_t begin = 0; begin < mine.size(); begin += most) {
      const auto count = std::min<std::size_t>(most, mine.size() - begin);
      auto payload = std::make_shared<Bytes>(count * (sizeof(std::uint64_t) + row_bytes));
      for (std::size_t each = 0; each < count; ++each) {
        const auto from = mine[begin + each];
        const auto key = rows[from] - first_row;
        std::memcpy(payload->data() + each * sizeof(key), &key, sizeof(key));
        std::memcpy(payload->data() + count * sizeof(key) + each * row_bytes,
                    values.data() + from * row_bytes, row_bytes);
      }
      payloads.push_back({parameter, {}, std::move(payload), part, count, false});
    }
  }
  const auto begun = attempt_;
  // Without steps in common they live until they have landed.
  if (!sync()) pushed_.clear();
  pushed_.insert(pushed_.end(), payloads.begin(), payloads.end());
  for (const auto& payload : payloads) {
    FERRY_TRY(post_rows(payload, deadline));
    if (attempt_ != begun) return {};
  }
  return sync() ? Status() : flush(deadline);
}

Status WorkerCore::make_room(ShardLink& link, bool slot, Deadline deadline) {
  if (link.has_room(slot)) return {};
  return wait_for([&link, slot] { return link.has_room(slot); }, deadline,
                  "a server to take what was pushed");
}

Status WorkerCore::room_for(ShardLink& link, Operation operation, bool slot, Deadline deadline) {
  auto room = make_room(link, slot, deadline);
  if (!room && sync() && operation != Operation::kAssign) half_ = pushing_;
  return room;
}

void WorkerCore::post_slot(ShardLink& link, const Entry& entry,
                           std::span<const std::byte> payload) {
  if (!link.post_slot(entry, payload)) return;
  ++stats_.pushed_blocks;
  stats_.pushed_bytes += payload.size();
}

const Memory* WorkerCore::memory_of(std::span<const std::byte> bytes) const {
  for (const auto& memory : memories_) {
    const auto all = memory.region.bytes();
    if (bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size())
      return &memory;
  }
  return nullptr;
}

Status WorkerCore::post_dense(Parameter parameter, Operation operation,
                              std::span<const std::byte> values, bool back, Deadline deadline) {
  const Posting posting(posting_);
  auto& to = tensors_[parameter];
  // First values are of no attempt, and nobody else repeats them.
  const auto anew = [this, operation, begun = attempt_] {
    return operation == Operation::kPush && attempt_ != begun;
  };
  const auto* memory = memory_of(values);
  std::uint32_t most = 0;
  const auto entry_of = [&](const PartLink& part) {
    return Entry{
        .operation = operation, .part = part.number, .attempt = attempt_, .step = pushing_};
  };
  const auto in_place = [&](const PartLink& part) {
    return memory != nullptr && memory->at[part.link->server()] && operation == Operation::kPush;
  };
  for (auto& part : to.parts) {
    if (!in_place(part)) {
      most = std::max(most, part.layout.blocks());
      continue;
    }
    FERRY_TRY(room_for(*part.link, operation, false, deadline));
    if (anew()) return {};
    auto entry = entry_of(part);
    entry.blocks = part.layout.blocks();
    entry.slot = Entry::kInPlace;
    entry.count = *memory->at[part.link->server()];
    entry.offset =
        static_cast<std::uint64_t>(values.data() - memory->region.data()) + part.run.offset;
    entry.bytes = part.run.bytes;
    ++stats_.pushed_in_place;
    part.link->post(entry);
    part.last_entry = part.link->posted();
  }
  // Blocks of all parts in turn, so that shards work at the same time.
  for (std::uint32_t block = 0; block < most; ++block) {
    for (std::size_t index = 0; index < to.parts.size(); ++index) {
      auto& part = to.parts[index];
      if (block >= part.layout.blocks() || in_place(part)) continue;
      FERRY_TRY(room_for(*part.link, operation, true, deadline));
      if (anew()) return {};
      auto entry = entry_of(part);
      entry.first = block;
      entry.blocks = 1;
      const auto run = static_cast<std::uint32_t>(index % to.info.runs.size());
      entry.offset = back && index == shown(to, run) ? 1 : 0;
      post_slot(*part.link, entry,
                values.subspan(part.run.offset + block * part.layout.block_bytes,
                               part.layout.bytes_of(block)));
      part.last_entry = part.link->posted();
    }
  }
  return {};
}

Status WorkerCore::post_rows(const Pushed& rows, Deadline deadline) {
  const Posting posting(posting_);
  const auto& to = tensors_[rows.parameter];
  const auto begun = attempt_;
  for (std::size_t index = rows.part; index < to.parts.size(); index += to.info.runs.size()) {
    const auto& part = to.parts[index];
    FERRY_TRY(room_for(*part.link, Operation::kRows, true, deadline));
    if (attempt_ != begun) return {};
    const Entry entry{.operation = Operation::kRows,
                      .part = part.number,
                      .attempt = attempt_,
                      .step = pushing_,
                      .count = rows.count};
    post_slot(*part.link, entry, *rows.rows);
  }
  return {};
}

// END is sent when all has landed everywhere: see the design note.
Status WorkerCore::post_end(Deadline deadline) {
  const Posting posting(posting_);
  for (auto begun = attempt_ + 1; begun != attempt_;) {
    begun = attempt_;
    const auto landed = [this] {
      return everywhere_in(pushing_, [](const ShardLink& link) { return link.has_taken_all(); });
    };
    if (sync() && shards_.size() > 1)
      FERRY_TRY(wait_for(landed, deadline, "what was pushed to land"));
    for (auto& link : shards_) FERRY_TRY(make_room(link, false, deadline));
  }
  end_merged(deadline);
  for (auto& link : shards_)
    link.post({.operation = Operation::kEnd, .attempt = attempt_, .step = pushing_});
  return {};
}

Status WorkerCore::end_step(Deadline deadline) {
  if (sync()) {
    FERRY_TRY(whole(deadline));
    FERRY_TRY(flush(deadline));
    FERRY_TRY(look_around(deadline));
  }
  pushing_ = step_ + 1;
  FERRY_TRY(merge(deadline));
  FERRY_TRY(post_end(deadline));
  ++step_;
  return {};
}

Status WorkerCore::flush(Deadline deadline) {
  const auto applied = [this] {
    return sync()
               ? is_applied(step_)
               : everywhere_in(step_, [](const ShardLink& link) { return link.has_taken_all(); });
  };
  return wait_for(applied, deadline, "what was pushed to be applied");
}

// Memory that all servers may write this tensor's values to.
Status WorkerCore::make_landing(TensorLink& tensor, Deadline deadline) {
  auto region = FERRY_TRY(data_->allocate(tensor.bytes));
  tensor.landing = std::move(region);
  for (std::uint32_t server = 0; server < servers_.size(); ++server) {
    auto offered = offer_landing(tensor, server, deadline);
    if (offered) continue;
    tensor.landing = {};
    return offered;
  }
  return {};
}

Status WorkerCore::offer_landing(const TensorLink& tensor, std::uint32_t server,
                                 Deadline deadline) {
  const auto& at = servers_[server];
  if (at.gone) return {};
  Bytes wish;
  bootstrap::Encoder out(wish);
  out.u32(rank_).u32(tensor.info.id);
  put(out, FERRY_TRY(data_->grant(tensor.landing, fabric::Rights::kReadWrite, at.channel)));
  FERRY_TRY(ask_server(server, Ask::kLanding, wish, deadline));
  return {};
}

// Where nothing is mapped, servers send new values on their own: no question, no answer, and no
// version to compare, since flags come after all that was written before them.
Result<Pulled> WorkerCore::push_pull(Parameter parameter, std::span<const std::byte> gradient,
                                     Deadline deadline) {
  auto& to = *FERRY_TRY(tensor(parameter));
  const bool back = std::all_of(to.parts.begin(), to.parts.end(),
                                [](const PartLink& part) { return part.mapped == nullptr; });
  if (back && !to.landing) FERRY_TRY(make_landing(to, deadline));
  const auto view = view_;
  FERRY_TRY(push(parameter, gradient, deadline, {.back = back}));
  const bool asked = back && !merges();
  FERRY_TRY(end_step(deadline));
  if (!sync()) FERRY_TRY(flush(deadline));
  if (!asked) return pull(parameter, deadline);
  FERRY_TRY(wait_fresh(deadline));
  if (view_ != view) return pull(parameter, deadline);  // who was to send them may be gone
  ++stats_.pulls;
  ++stats_.pulled_with_push;
  Pulled pulled;
  pulled.core_ = this;
  pulled.parameter_ = parameter;
  pulled.views_.push_back({0, to.landing.bytes(), 0});
  return pulled;
}

// Somebody has died half-way, and what was added up was forgotten.
Status WorkerCore::push_again(Deadline deadline) {
  const Posting posting(posting_);
  again_ = true;
  const auto pushing = pushing_;
  Status done;
  while (done) {
    std::uint64_t target = attempt_;
    for (const auto& link : shards_)
      if (!link.is_removed()) target = std::max(target, link.attempt());
    if (target == attempt_ && owed_ == 0) break;
    if (target != attempt_) done = begin_anew(target, deadline);
    if (!done || owed_ == 0) continue;
    pushing_ = owed_;
    done = post_end(deadline);
    if (done) owed_ = 0;
  }
  pushing_ = pushing;
  again_ = false;
  return done;
}

// All shards say so before anything is pushed again, so that no shard has what another one is about
// to forget.
Status WorkerCore::begin_anew(std::uint64_t attempt, Deadline deadline) {
  const auto all = [this, attempt] {
    return everywhere_in(settled().clock() + 1,
                         [&](const ShardLink& link) { return link.attempt() >= attempt; });
  };
  FERRY_TRY(wait_for(all, deadline, "all servers to begin the step anew"));
  attempt_ = static_cast<std::uint32_t>(attempt);
  half_ = owed_ = 0;
  ++stats_.begun_anew;
  pushing_ = settled().clock() + 1;
  if (merging_.on) {
    merging_.step = pushing_;
    go_alone();
  }
  // It may be a step that this worker has not begun.
  const bool mine = pushed_step_ == pushing_;
  for (std::size_t each = 0; mine && each < pushed_.size(); ++each) {
    const auto one = pushed_[each];
    FERRY_TRY(one.rows != nullptr
                  ? post_rows(one, deadline)
                  : post_dense(one.parameter, Operation::kPush, one.gradient, one.back, deadline));
  }
  if (step_ >= pushing_ && pushing_ > entered_) owed_ = pushing_;
  return {};
}

}  // namespace ferry::ps
