#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ferry/mail/mail_record_internal.h"

using namespace ferry::mail;  // NOLINT(google-build-using-namespace): a program of one page

// What is accepted stays inside its record, and is what the encoder makes of it.
static void check_record(const MailHead& head, std::span<const std::byte> body) {
  if (head.kind == MailKind::kEager) {
    std::vector<std::span<const std::byte>> parts;
    if (!load_eager(head, body, parts)) return;
    for (auto part : parts)
      if (part.data() < body.data() || part.data() + part.size() > body.data() + body.size())
        std::abort();
    if (eager_record_bytes(parts) != MailHead::kBytes + body.size()) std::abort();
    return;
  }
  Announcement large;
  if (!large.load(head, body)) return;
  if (large.record_bytes() != MailHead::kBytes + body.size()) std::abort();
  std::vector<std::byte> again(large.record_bytes());
  large.store(again.data());
  if (!std::equal(body.begin(), body.end(), again.begin() + MailHead::kBytes)) std::abort();
}

static void check_batch(std::span<const std::byte> slot) {
  auto batch = MailBatch::load(slot);
  if (!batch) return;
  auto left = slot.subspan(MailBatch::kBytes, batch->bytes);
  for (std::uint32_t i = 0; i < batch->records; ++i) {
    auto head = MailHead::load(left);
    if (!head) return;
    check_record(*head, left.subspan(MailHead::kBytes, head->body));
    left = left.subspan(MailHead::kBytes + head->body);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> aligned(size / 8 + 1);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  auto bytes = std::as_bytes(std::span(aligned)).first(size);
  check_batch(bytes);
  if (auto hello = MailHello::from_wire(bytes)) {
    auto again = hello->to_wire();
    if (!std::equal(bytes.begin(), bytes.end(), again.begin(), again.end())) std::abort();
  }
  if (size >= 8) {
    auto word = MailWord::from_u64(aligned[0]);
    if (word && word->to_u64() != aligned[0]) std::abort();
  }
  return 0;
}
