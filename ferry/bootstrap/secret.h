#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::bootstrap {

// 32 bytes: a key, a proof, a nonce.
using Bytes32 = std::array<std::byte, 32>;

// What every member of a cluster knows and nobody else does.
//
// Wiped from memory on destruction. It has no accessor and no formatter, so it cannot end up in a
// log by accident. Immutable: safe to read from any thread. A moved-from secret may only be
// destroyed or assigned to.
class Secret {
 public:
  static constexpr std::size_t kMinBytes = 16;
  static constexpr std::size_t kMaxBytes = 4096;

  // White space around the text is not part of the secret.
  static Result<Secret> from_text(std::string_view text);
  // Refuses a file that users other than its owner and group may read or write.
  static Result<Secret> from_file(const std::string& path);
  // 256 random bits.
  static Result<Secret> generate();

  Secret(const Secret&) = default;
  Secret(Secret&&) = default;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  // Writes a new file that only its owner may read, for from_file() elsewhere.
  Status save(const std::string& path) const;

  // HMAC-SHA256 of the concatenated parts, keyed with this secret.
  Bytes32 mac(std::initializer_list<std::span<const std::byte>> parts) const;

  // Takes as long for equal secrets as for different ones.
  friend bool operator==(const Secret& a, const Secret& b);

 private:
  explicit Secret(std::string_view text);
  void wipe();

  std::vector<std::byte> bytes_;
};

// HMAC-SHA256 of the concatenated parts.
Bytes32 hmac_sha256(std::span<const std::byte> key,
                    std::initializer_list<std::span<const std::byte>> parts);

// Compares without telling by its duration where the difference is.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

// Overwrites memory in a way that the compiler keeps.
void wipe(std::span<std::byte> bytes);

// Fills from the system's cryptographic generator.
Status random_bytes(std::span<std::byte> bytes);

}  // namespace ferry::bootstrap
