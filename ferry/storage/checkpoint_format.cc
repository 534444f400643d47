#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "ferry/storage/checkpoint_format_internal.h"

namespace ferry::storage {
namespace {

constexpr std::string_view kMagic = "FERRYCK1";
// magic, step, number of entries
constexpr std::size_t kHeaderBytes = 8 + 8 + 8;
// length of the name, descriptor, offset, bytes, digest; the name follows
constexpr std::size_t kEntryBytes = 8 + tensor::kDescriptorBytes + 8 + 8 + 32;

void put(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void put_number(std::vector<std::byte>& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    out.push_back(static_cast<std::byte>((value >> shift) & 0xff));
}

// Takes pieces from the front; what is not there makes it fail for good.
class Taker {
 public:
  explicit Taker(std::span<const std::byte> bytes) : left_(bytes), all_(bytes) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > left_.size()) {
      short_ = true;
      left_ = {};
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    int shift = 0;
    for (const auto byte : take(8)) {
      value |= static_cast<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }
  std::size_t left() const { return left_.size(); }
  bool too_short() const { return short_; }
  std::span<const std::byte> taken() const { return all_.first(all_.size() - left_.size()); }

 private:
  std::span<const std::byte> left_;
  std::span<const std::byte> all_;
  bool short_ = false;
};

tl::unexpected<Error> broken(const std::string& what) {
  return fail(Code::kDataLoss, "not a checkpoint, or a broken one: {}", what);
}

Result<Entry> parse_entry(Taker& taker, std::uint64_t file_bytes) {
  Entry entry;
  const auto name_bytes = taker.number();
  const auto descriptor = taker.take(tensor::kDescriptorBytes);
  entry.offset = taker.number();
  entry.bytes = taker.number();
  const auto digest = taker.take(entry.digest.size());
  if (name_bytes > kMostName) return broken("a name is too long");
  const auto name = taker.take(name_bytes);
  if (taker.too_short()) return broken("it ends within its table");
  std::copy(digest.begin(), digest.end(), entry.digest.begin());
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  auto spec = tensor::spec_from_wire(descriptor);
  if (!spec) return broken(spec.error().message());
  entry.spec = *spec;
  const auto bytes = entry.spec.bytes();
  if (!bytes || *bytes != entry.bytes) return broken("the size of a tensor is not its shape's");
  if (entry.offset > file_bytes || entry.bytes > file_bytes - entry.offset)
    return broken(fmt::format("'{}' lies beyond its end", entry.name));
  return entry;
}

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  Digest digest;
  unsigned int length = 0;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &length, EVP_sha256(), nullptr);
  FERRY_ASSERT(done == 1 && length == digest.size(), "SHA-256 is always there");
  return digest;
}

std::uint64_t table_length(std::span<const Entry> entries) {
  std::uint64_t length = kHeaderBytes + sizeof(Digest);
  for (const auto& entry : entries) length += kEntryBytes + entry.name.size();
  return length;
}

std::vector<std::byte> table_bytes(const Table& table) {
  std::vector<std::byte> out;
  out.reserve(table_length(table.entries));
  put(out, std::as_bytes(std::span(kMagic)));
  put_number(out, table.step);
  put_number(out, table.entries.size());
  for (const auto& entry : table.entries) {
    put_number(out, entry.name.size());
    put(out, tensor::to_wire(entry.spec));
    put_number(out, entry.offset);
    put_number(out, entry.bytes);
    put(out, entry.digest);
    put(out, std::as_bytes(std::span(entry.name)));
  }
  put(out, digest_of(out));
  return out;
}

Result<Table> parse_table(std::span<const std::byte> file) {
  Taker taker(file);
  const auto magic = taker.take(kMagic.size());
  if (magic.size() != kMagic.size() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    return broken("it does not begin like one");
  Table table;
  table.step = taker.number();
  const auto count = taker.number();
  if (count > taker.left() / kEntryBytes) return broken("it ends within its table");
  for (std::uint64_t index = 0; index < count; ++index)
    table.entries.push_back(FERRY_TRY(parse_entry(taker, file.size())));
  const auto expected = digest_of(taker.taken());
  const auto digest = taker.take(expected.size());
  if (!std::equal(digest.begin(), digest.end(), expected.begin(), expected.end()))
    return broken("the checksum of its table is wrong");
  return table;
}

}  // namespace ferry::storage
