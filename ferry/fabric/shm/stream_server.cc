// Data path.
#include <algorithm>
#include <cstring>

#include "ferry/base/stall.h"
#include "ferry/fabric/shm/in_flight_internal.h"
#include "ferry/fabric/shm/stream_internal.h"
#include "ferry/fabric/shm/wire_internal.h"

namespace ferry::fabric::shm {

namespace {
constexpr int kBurst = 16;

std::uint64_t* word_at(std::byte* at) { return reinterpret_cast<std::uint64_t*>(at); }

std::byte* address_of(const GrantTable::Grant& grant, std::uint64_t offset) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(grant.address + offset));
}
}  // namespace

Result<int> StreamServer::progress() {
  int work = 0;
  stalled_ = false;
  while (work < kBurst) {
    // A request whose bytes are all here, or that needs none, ends with its reply.
    bool complete = open_ && (current_.header.verb != static_cast<std::uint8_t>(Verb::kWrite) ||
                              current_.moved == current_.length);
    if (complete) {
      if (!FERRY_TRY(reply())) {
        stalled_ = true;
        return work;
      }
      ++work;
      continue;
    }
    auto record = FERRY_TRY(stream_.front());
    if (record.empty()) return work;
    FERRY_TRY(take(record));
    stream_.pop();
    ++work;
  }
  return work;
}

Status StreamServer::take(std::span<const std::byte> record) {
  RecordHeader header;
  if (record.size() < sizeof header)
    return fail(Code::kDataLoss, "a record of {} bytes", record.size());
  std::memcpy(&header, record.data(), sizeof header);
  if (header.kind == RecordHeader::Kind::kRequest && !open_) return begin(record);
  if (header.kind == RecordHeader::Kind::kData && open_)
    return place(record.subspan(sizeof header));
  bool known = open_ ? header.number == current_.header.number : header.number > served();
  if (header.kind == RecordHeader::Kind::kAbort && known) {
    current_.header.number = header.number;
    end();
    return {};
  }
  return fail(Code::kDataLoss, "a record of kind {} out of turn", static_cast<int>(header.kind));
}

Status StreamServer::begin(std::span<const std::byte> record) {
  RequestRecord request;
  if (record.size() < sizeof request)
    return fail(Code::kDataLoss, "a request of {} bytes", record.size());
  std::memcpy(&request, record.data(), sizeof request);
  if (request.header.number <= served())
    return fail(Code::kDataLoss, "request {} after request {}", request.header.number, served());
  if (request.header.verb > static_cast<std::uint8_t>(Verb::kCompareSwap))
    return fail(Code::kDataLoss, "a request with the unknown verb {}", request.header.verb);
  current_ = Current{};
  current_.header = request.header;
  current_.length = request.length;
  current_.compare = request.flag_key;
  open_ = true;
  auto checked = check(request);
  if (!checked) current_.error = checked.error();
  if (request.header.verb == static_cast<std::uint8_t>(Verb::kWrite))
    return place(record.subspan(sizeof request));
  return {};
}

Status StreamServer::check(const RequestRecord& request) {
  auto verb = static_cast<Verb>(request.header.verb);
  bool atomic = verb == Verb::kFetchAdd || verb == Verb::kCompareSwap;
  Rights need = verb == Verb::kWrite ? Rights::kWrite : atomic ? Rights::kAtomic : Rights::kRead;
  std::uint64_t length = atomic ? 8 : request.length;
  current_.remote.key = request.key;
  current_.remote.epoch = request.epoch;
  auto grant = FERRY_TRY(grants_.check(current_.remote, request.offset, length, need, session_));
  current_.at = address_of(grant, request.offset);
  if (atomic && reinterpret_cast<std::uintptr_t>(current_.at) % 8 != 0)
    return fail(Code::kInvalidArgument, "an atomic on a word that is not aligned to 8");
  if (verb != Verb::kWrite || request.header.flagged == 0) return {};
  current_.flag.key = request.flag_key;
  current_.flag.epoch = request.flag_epoch;
  auto flag =
      FERRY_TRY(grants_.check(current_.flag, request.flag_offset, 8, Rights::kWrite, session_));
  auto* flag_at = address_of(flag, request.flag_offset);
  if (reinterpret_cast<std::uintptr_t>(flag_at) % 8 != 0)
    return fail(Code::kInvalidArgument, "a flag that is not aligned to 8");
  current_.flag_at = flag_at;
  return {};
}

bool StreamServer::stands(const RemoteRegion& remote, Rights need) {
  if (grants_.stands(remote.key, remote.epoch)) return true;
  auto checked = grants_.check(remote, 0, 0, need, session_);
  current_.error =
      checked ? fail(Code::kFailedPrecondition, "the grant {:#x} was revoked", remote.key).value()
              : checked.error();
  return false;
}

Status StreamServer::place(std::span<const std::byte> bytes) {
  if (current_.header.verb != static_cast<std::uint8_t>(Verb::kWrite) ||
      bytes.size() > current_.length - current_.moved)
    return fail(Code::kDataLoss, "more bytes than the request said");
  if (!current_.error && !bytes.empty()) {
    InFlight::Section section(InFlight::Memory::kOwn);
    if (stands(current_.remote, Rights::kWrite)) {
      stall_for_tests(StallPoint::kServeWrite);
      std::memcpy(current_.at + current_.moved, bytes.data(), bytes.size());
    }
  }
  current_.moved += bytes.size();
  return {};
}

// True: put, or nothing to put; false: no room now.
Result<bool> StreamServer::reply() {
  if (current_.error) return reply_error();
  switch (static_cast<Verb>(current_.header.verb)) {
    case Verb::kWrite:
      store_flag();
      if (current_.error) return reply_error();
      end();
      return true;
    case Verb::kRead:
      return reply_data();
    default:
      return reply_value();
  }
}

void StreamServer::store_flag() {
  if (current_.flag_at == nullptr) return;
  InFlight::Section section(InFlight::Memory::kOwn);
  // The loop wakes whoever sleeps on it, since there was progress.
  if (stands(current_.flag, Rights::kWrite))
    __atomic_store_n(word_at(current_.flag_at), current_.header.value, __ATOMIC_RELEASE);
}

Result<bool> StreamServer::reply_data() {
  std::size_t bytes = std::min(piece_of(current_.length), current_.length - current_.moved);
  if (bytes != 0) {
    auto room = FERRY_TRY(replies_.reserve(sizeof(RecordHeader) + bytes));
    if (room.empty()) return false;
    RecordHeader header;
    header.kind = RecordHeader::Kind::kData;
    header.number = current_.header.number;
    std::memcpy(room.data(), &header, sizeof header);
    InFlight::Section section(InFlight::Memory::kOwn);
    if (!stands(current_.remote, Rights::kRead)) return true;
    std::memcpy(room.data() + sizeof header, current_.at + current_.moved, bytes);
    replies_.commit();
    current_.moved += bytes;
  }
  if (current_.moved == current_.length) end();
  return true;
}

Result<bool> StreamServer::reply_value() {
  auto room = FERRY_TRY(replies_.reserve(sizeof(RecordHeader)));
  if (room.empty()) return false;
  RecordHeader header;
  header.kind = RecordHeader::Kind::kValue;
  header.number = current_.header.number;
  {
    InFlight::Section section(InFlight::Memory::kOwn);
    if (!stands(current_.remote, Rights::kAtomic)) return true;
    auto* word = word_at(current_.at);
    header.value = current_.compare;
    if (static_cast<Verb>(current_.header.verb) == Verb::kFetchAdd) {
      header.value = __atomic_fetch_add(word, current_.header.value, __ATOMIC_SEQ_CST);
    } else {
      __atomic_compare_exchange_n(word, &header.value, current_.header.value, false,
                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
  }
  std::memcpy(room.data(), &header, sizeof header);
  replies_.commit();
  end();
  return true;
}

Result<bool> StreamServer::reply_error() {
  const auto& text = current_.error->message();
  auto bytes = std::min(text.size(), kMaxText);
  auto room = FERRY_TRY(replies_.reserve(sizeof(RecordHeader) + bytes));
  if (room.empty()) return false;
  RecordHeader header;
  header.kind = RecordHeader::Kind::kError;
  header.number = current_.header.number;
  header.value = static_cast<std::uint64_t>(current_.error->code());
  std::memcpy(room.data(), &header, sizeof header);
  std::memcpy(room.data() + sizeof header, text.data(), bytes);
  replies_.commit();
  end();
  return true;
}

void StreamServer::end() {
  open_ = false;
  served_.store(current_.header.number, std::memory_order_release);
  done_.store(current_.header.number, std::memory_order_release);
}

}  // namespace ferry::fabric::shm
