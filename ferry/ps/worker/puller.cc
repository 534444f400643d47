#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "ferry/base/stall.h"
#include "ferry/ps/worker/puller_internal.h"

// Weights: in place, copied, or read.

namespace ferry::ps {
namespace {

constexpr int kTries = 4;          // for a lease while the server is publishing
constexpr int kStampTries = 1000;  // for one block, whose rows are being updated
constexpr std::size_t kHeld = offsetof(Seat, held);
constexpr std::size_t kCopying = offsetof(Seat, copying);
constexpr std::size_t kEnd = offsetof(Seat::Lease, end);
constexpr std::chrono::milliseconds kNotPublished{1};

// The last one before whatever is being published at the moment.
std::uint64_t published_epoch(const PartLink& part) {
  return load_word(part.mapped) & ~std::uint64_t{1};
}

Status not_published(std::uint32_t rank) {
  return fail(Code::kDeadlineExceeded, "worker {} waited in vain for a block to be published",
              rank);
}

}  // namespace

Status Puller::check_servers_of(const TensorLink& tensor) const {
  if (context_.job.replicas > 1) return {};
  for (const auto& part : tensor.parts)
    if (!part.link->channel().alive())
      return fail(Code::kUnavailable, "the server at {}, which has a part of '{}', is gone",
                  part.link->channel().peer_endpoint(), tensor.info.name);
  return {};
}

std::byte* Puller::seat(const PartLink& part, std::size_t which) const {
  return part.seats + context_.rank * sizeof(Seat) + which;
}

Pulled::Lease Puller::take_lease(const PartLink& part, std::size_t which,
                                 std::uint64_t epoch) const {
  const Pulled::Lease lease{.seat = seat(part, which), .begin = Seat::word_of(part.nonce, epoch)};
  word_at(lease.seat, kEnd).store(Seat::looking_of(part.nonce), std::memory_order_relaxed);
  word_at(lease.seat).store(lease.begin);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return lease;
}

Status Puller::end_lease(const PartLink& part, const Pulled::Lease& lease) const {
  auto expected = lease.begin;
  if (word_at(lease.seat).compare_exchange_strong(expected, 0)) return {};
  return fail(Code::kUnavailable,
              "worker {} was believed to be dead, or server {} was closed: what was read there may "
              "have been overwritten",
              context_.rank, part.link->server());
}

bool Puller::is_stable(const PartLink& part, std::uint32_t block, std::uint64_t& current) const {
  const auto head = part.layout.head(block);
  for (int tries = 0; tries < kStampTries; ++tries) {
    current = load_word(part.mapped, head);
    const auto plane = Head::plane_of(current);
    if (plane >= kPlanes) return false;
    const auto stamp =
        load_word(part.mapped, head + offsetof(Head, stamps) + 8 * plane, __ATOMIC_SEQ_CST);
    if (stamp == Head::version_of(current)) return true;
    cpu_relax();
  }
  return false;
}

bool Puller::leaves_room(const PartLink& part, std::uint64_t epoch) const {
  for (std::uint32_t rank = 0; rank < context_.job.workers; ++rank) {
    if (rank == context_.rank) continue;
    const auto begin = load_word(part.seats, rank * sizeof(Seat) + kHeld, __ATOMIC_SEQ_CST);
    if (begin != 0 && Seat::epoch_of(begin) != (epoch & Seat::kEpochMask)) return false;
  }
  return true;
}

Result<bool> Puller::lease(PartLink& part, Pulled& pulled) const {
  auto& views = pulled.views_;
  const auto before = views.size();
  for (int tries = 0; tries < kTries && !part.leased; ++tries) {
    const auto epoch = published_epoch(part);
    const auto lease = take_lease(part, kHeld, epoch);
    bool good = true;
    for (std::uint32_t block = 0; block < part.layout.blocks() && good; ++block) {
      std::uint64_t current = 0;
      good = is_stable(part, block, current) && current != 0;
      const auto* data = part.mapped + part.layout.plane(Head::plane_of(current)) +
                         block * part.layout.block_bytes;
      const auto bytes = part.layout.bytes_of(block);
      if (block > 0 && views.back().bytes.data() + views.back().bytes.size() == data)
        views.back().bytes = {views.back().bytes.data(), views.back().bytes.size() + bytes};
      else
        views.push_back({part.run.offset + block * part.layout.block_bytes,
                         {data, bytes},
                         Head::version_of(current)});
    }
    stall_for_tests(StallPoint::kEndLookAtLease);
    // Not by a store: another worker may have the seat by now.
    auto looking = Seat::looking_of(part.nonce);
    word_at(lease.seat, kEnd).compare_exchange_strong(looking, lease.begin);
    if (good && load_word(part.mapped) == epoch) {
      if (leaves_room(part, epoch)) {
        part.leased = true;
        pulled.leases_.push_back(lease);
        return true;
      }
      tries = kTries;  // somebody else will hold on to it for a while
    }
    views.resize(before);
    FERRY_TRY(end_lease(part, lease));
  }
  return false;
}

Status Puller::release(Parameter parameter, std::span<const Pulled::Lease> leases) {
  Status all;
  for (const auto& lease : leases) {
    auto& part = tensors_[parameter].parts[lease.part];
    if (lease.seat == seat(part, kHeld)) part.leased = false;
    auto ended = end_lease(part, lease);
    if (!ended) all = std::move(ended);
  }
  return all;
}

Result<bool> Puller::copy(const PartLink& part, std::span<std::byte> out) const {
  const auto epoch = published_epoch(part);
  const auto lease = take_lease(part, kCopying, epoch);
  bool there = true;
  for (std::uint32_t block = 0; block < part.layout.blocks() && there; ++block) {
    std::uint64_t current = 0;
    there = is_stable(part, block, current) && current != 0;
    if (!there) break;
    const auto at = block * part.layout.block_bytes;
    stall_for_tests(StallPoint::kCopyBlock);
    std::memcpy(out.data() + at, part.mapped + part.layout.plane(Head::plane_of(current)) + at,
                part.layout.bytes_of(block));
  }
  FERRY_TRY(end_lease(part, lease));
  return there;
}

Result<bool> Puller::fetch(PartLink& part, std::span<std::byte> out, Deadline deadline) {
  ++context_.stats.pulled_copies;
  return part.mapped != nullptr ? copy(part, out) : read(part, out, deadline);
}

template <class Get>
Status Puller::when_published(TensorLink& from, std::uint32_t run, Deadline deadline, Get get) {
  for (;;) {
    auto& part = from.parts[from.readable_copy(run)];
    const auto got = get(part);
    if (!got) {
      FERRY_TRY(
          members_.await_removal(part.link->server(), got.error(), Newcomers::kConnect, deadline));
      continue;
    }
    if (*got) return {};
    if (deadline.expired()) return not_published(context_.rank);
    FERRY_TRY(members_.check_job_goes_on());
    FERRY_TRY(members_.refresh_view(Newcomers::kConnect, deadline));
    std::this_thread::sleep_for(kNotPublished);
  }
}

Status Puller::fetch_when_published(TensorLink& from, std::uint32_t run, std::span<std::byte> out,
                                    Deadline deadline) {
  return when_published(from, run, deadline,
                        [&](PartLink& part) { return fetch(part, out, deadline); });
}

Status Puller::pull_part(TensorLink& from, std::uint32_t run, Pulled& pulled, Deadline deadline) {
  const auto index = from.readable_copy(run);
  auto& part = from.parts[index];
  if (part.mapped != nullptr) {
    const auto leased = lease(part, pulled);
    if (!leased)
      FERRY_TRY(members_.await_removal(part.link->server(), leased.error(), Newcomers::kConnect,
                                       deadline));
    if (leased.value_or(false)) {
      pulled.leases_.back().part = static_cast<std::uint32_t>(index);
      ++context_.stats.pulled_in_place;
      return {};
    }
  }
  if (pulled.own_ == nullptr) {
    if (from.own == nullptr || from.own.use_count() > 1)
      from.own = std::make_shared<Bytes>(from.bytes);
    pulled.own_ = from.own;
  }
  const auto out = std::span(*pulled.own_).subspan(part.run.offset, part.run.bytes);
  FERRY_TRY(fetch_when_published(from, run, out, deadline));
  auto& views = pulled.views_;
  if (!views.empty() && views.back().bytes.data() + views.back().bytes.size() == out.data())
    views.back().bytes = {views.back().bytes.data(), views.back().bytes.size() + out.size()};
  else
    views.push_back({part.run.offset, out, 0});
  return {};
}

Result<Pulled> Puller::pull(Parameter parameter, Deadline deadline) {
  auto& from = *FERRY_TRY(tensors_.at(parameter));
  FERRY_TRY(await_fresh_(deadline));
  FERRY_TRY(check_servers_of(from));
  ++context_.stats.pulls;
  Pulled pulled;
  pulled.puller_ = this;
  pulled.parameter_ = parameter;
  for (std::uint32_t run = 0; run < from.info.runs.size(); ++run)
    FERRY_TRY(pull_part(from, run, pulled, deadline));
  pulled.in_place_ = pulled.own_ == nullptr;
  return pulled;
}

Pulled Puller::take_landed(Parameter parameter) {
  ++context_.stats.pulls;
  ++context_.stats.pulled_with_push;
  Pulled pulled;
  pulled.puller_ = this;
  pulled.parameter_ = parameter;
  pulled.views_.push_back({0, tensors_[parameter].landing.bytes(), 0});
  return pulled;
}

Status Puller::pull_to(Parameter parameter, std::span<std::byte> out, Deadline deadline) {
  auto& from = *FERRY_TRY(tensors_.at(parameter));
  if (out.size() != from.bytes)
    return fail(Code::kInvalidArgument, "'{}' is {}, which has {} bytes; there is room for {}",
                from.info.name, from.info.spec.to_string(), from.bytes, out.size());
  FERRY_TRY(await_fresh_(deadline));
  FERRY_TRY(check_servers_of(from));
  ++context_.stats.pulls;
  for (std::uint32_t run = 0; run < from.info.runs.size(); ++run) {
    const auto& at = from.info.runs[run];
    FERRY_TRY(fetch_when_published(from, run, out.subspan(at.offset, at.bytes), deadline));
  }
  return {};
}

Result<std::uint64_t> Puller::version(Parameter parameter, Deadline deadline) {
  auto& of = *FERRY_TRY(tensors_.at(parameter));
  FERRY_TRY(check_servers_of(of));
  std::uint64_t version = 0;
  const auto get = [&](PartLink& part) -> Result<bool> {
    version = FERRY_TRY(read_version(part, deadline));
    return true;
  };
  FERRY_TRY(when_published(of, 0, deadline, get));
  return version;
}

Status Puller::pull_rows(Parameter parameter, std::span<const std::uint64_t> rows,
                         std::span<std::byte> out, Deadline deadline) {
  auto& from = *FERRY_TRY(tensors_.at(parameter));
  const auto row_bytes = from.row_bytes;
  const auto all = from.bytes / row_bytes;
  if (from.info.block_bytes % row_bytes != 0)
    return fail(Code::kUnimplemented, "rows of '{}' have {} bytes, more than a block has",
                from.info.name, row_bytes);
  if (out.size() != rows.size() * row_bytes)
    return fail(Code::kInvalidArgument, "{} rows of '{}' have {} bytes; there is room for {}",
                rows.size(), from.info.name, rows.size() * row_bytes, out.size());
  std::vector<std::vector<RowAt>> by_part(from.info.runs.size());
  for (std::size_t each = 0; each < rows.size(); ++each) {
    if (rows[each] >= all)
      return fail(Code::kOutOfRange, "row {} of '{}', which has {}", rows[each], from.info.name,
                  all);
    const auto at = rows[each] * row_bytes;
    const auto part = from.run_at(at);
    by_part[part].push_back(
        {at - from.parts[part].run.offset, out.subspan(each * row_bytes, row_bytes)});
  }
  FERRY_TRY(await_fresh_(deadline));
  FERRY_TRY(check_servers_of(from));
  ++context_.stats.pulls;
  for (std::uint32_t run = 0; run < by_part.size(); ++run) {
    if (by_part[run].empty()) continue;
    const auto get = [&](PartLink& part) { return fetch_rows(part, by_part[run], deadline); };
    FERRY_TRY(when_published(from, run, deadline, get));
  }
  return {};
}

Result<bool> Puller::fetch_rows(const PartLink& part, std::span<const RowAt> rows,
                                Deadline deadline) {
  ++context_.stats.pulled_copies;
  return part.mapped != nullptr ? copy_rows(part, rows) : read_rows(part, rows, deadline);
}

Result<bool> Puller::copy_rows(const PartLink& part, std::span<const RowAt> rows) const {
  const auto epoch = published_epoch(part);
  const auto lease = take_lease(part, kCopying, epoch);
  bool there = true;
  for (const auto& row : rows) {
    std::uint64_t current = 0;
    const auto block = static_cast<std::uint32_t>(row.offset / part.layout.block_bytes);
    there = is_stable(part, block, current) && current != 0;
    if (!there) break;
    stall_for_tests(StallPoint::kCopyBlock);
    std::memcpy(row.out.data(),
                part.mapped + part.layout.plane(Head::plane_of(current)) + row.offset,
                row.out.size());
  }
  FERRY_TRY(end_lease(part, lease));
  return there;
}

}  // namespace ferry::ps
