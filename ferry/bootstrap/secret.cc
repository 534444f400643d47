#include "ferry/bootstrap/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "ferry/base/fd.h"

namespace ferry::bootstrap {
namespace {

struct FreeMac {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  auto first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

Result<Fd> open_private(const std::string& path) {
  // Non-blocking, so that a FIFO in place of the file cannot hold us up.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno(errno, "cannot open the secret file '{}'", path);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0)
    return fail_errno(errno, "cannot examine the secret file '{}'", path);
  if (!S_ISREG(facts.st_mode))
    return fail(Code::kInvalidArgument, "the secret file '{}' is not a regular file", path);
  if ((facts.st_mode & (S_IROTH | S_IWOTH)) != 0)
    return fail(Code::kPermissionDenied,
                "the secret file '{}' is open to every user of this host (mode {:04o}); run chmod "
                "600 on it, "
                "and change the secret if others may have read it",
                path, facts.st_mode & 07777);
  return fd;
}

}  // namespace

Bytes32 hmac_sha256(std::span<const std::byte> key,
                    std::initializer_list<std::span<const std::byte>> parts) {
  static const std::unique_ptr<EVP_MAC, FreeMac> kHmac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  std::unique_ptr<EVP_MAC_CTX, FreeMac> context(EVP_MAC_CTX_new(kHmac.get()));
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                               OSSL_PARAM_construct_end()};
  bool good = context && EVP_MAC_init(context.get(), raw(key), key.size(), params) == 1;
  for (auto part : parts) good = good && EVP_MAC_update(context.get(), raw(part), part.size()) == 1;
  Bytes32 out{};
  std::size_t size = 0;
  good = good && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(out.data()), &size,
                               out.size()) == 1;
  FERRY_ASSERT(good && size == out.size(), "OpenSSL on this host cannot compute HMAC-SHA256");
  return out;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::span<std::byte> bytes) {
  if (!bytes.empty()) OPENSSL_cleanse(bytes.data(), bytes.size());
}

Status random_bytes(std::span<std::byte> bytes) {
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  for (std::size_t done = 0; done < bytes.size();) {
    int chunk = static_cast<int>(std::min<std::size_t>(bytes.size() - done, 1 << 20));
    if (RAND_bytes(data + done, chunk) != 1)
      return fail(Code::kUnavailable,
                  "the system's random generator gave no bytes; is /dev/urandom readable?");
    done += static_cast<std::size_t>(chunk);
  }
  return {};
}

Secret::Secret(std::string_view text) {
  auto view = std::as_bytes(std::span(text));
  bytes_.assign(view.begin(), view.end());
}

Secret::~Secret() { wipe(); }

void Secret::wipe() { bootstrap::wipe(bytes_); }

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) *this = Secret(other);
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    bytes_ = std::move(other.bytes_);
  }
  return *this;
}

Result<Secret> Secret::from_text(std::string_view text) {
  auto trimmed = trim(text);
  if (trimmed.size() < kMinBytes || trimmed.size() > kMaxBytes)
    return fail(Code::kInvalidArgument,
                "the cluster secret has {} bytes; it needs {} to {}, for example the output of "
                "openssl rand -hex 32",
                trimmed.size(), kMinBytes, kMaxBytes);
  return Secret(trimmed);
}

Result<Secret> Secret::from_file(const std::string& path) {
  auto fd = FERRY_TRY(open_private(path));
  std::array<char, kMaxBytes + 64> text;  // room for the white space that is trimmed
  std::size_t size = 0;
  ssize_t got = 0;
  while (size < text.size() && (got = ::read(fd.get(), text.data() + size, text.size() - size)) > 0)
    size += static_cast<std::size_t>(got);
  int error = got < 0 ? errno : 0;
  auto secret = from_text({text.data(), size});
  bootstrap::wipe(std::as_writable_bytes(std::span(text)));
  if (error != 0) return fail_errno(error, "cannot read the secret file '{}'", path);
  if (!secret)
    return fail(Code::kInvalidArgument, "in the secret file '{}': {}", path,
                secret.error().message());
  return secret;
}

Result<Secret> Secret::generate() {
  Bytes32 random;
  FERRY_TRY(random_bytes(random));
  constexpr std::string_view kHex = "0123456789abcdef";
  std::array<char, 64> text;
  for (std::size_t i = 0; i < random.size(); ++i) {
    auto value = std::to_integer<unsigned>(random[i]);
    text[2 * i] = kHex[value >> 4];
    text[2 * i + 1] = kHex[value & 15];
  }
  Secret secret(std::string_view(text.data(), text.size()));
  bootstrap::wipe(random);
  bootstrap::wipe(std::as_writable_bytes(std::span(text)));
  return secret;
}

Status Secret::save(const std::string& path) const {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, "cannot create the secret file '{}'", path);
  for (std::size_t done = 0; done < bytes_.size();) {
    auto wrote = ::write(fd.get(), bytes_.data() + done, bytes_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      int error = errno;
      ::unlink(path.c_str());
      return fail_errno(error, "cannot write the secret file '{}'", path);
    }
    done += static_cast<std::size_t>(wrote);
  }
  return {};
}

Bytes32 Secret::mac(std::initializer_list<std::span<const std::byte>> parts) const {
  return hmac_sha256(bytes_, parts);
}

bool operator==(const Secret& a, const Secret& b) {
  return equal_in_constant_time(a.bytes_, b.bytes_);
}

}  // namespace ferry::bootstrap
