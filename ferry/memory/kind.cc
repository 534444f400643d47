#include "ferry/memory/kind.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/log.h"

namespace ferry::memory {
namespace {

constexpr const char* kName = "ferry-arena";

class HostBacking final : public Backing {
 public:
  HostBacking(Fd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  std::span<std::byte> bytes() const override { return mapping_.bytes(); }
  int fd() const override { return fd_.get(); }

 private:
  Fd fd_;
  Mapping mapping_;
};

std::size_t free_huge_pages() {
  constexpr const char* kFile = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(kFile, "re"), &std::fclose);
  std::size_t pages = 0;
  if (!file || std::fscanf(file.get(), "%zu", &pages) != 1) return 0;
  return pages;
}

Result<Fd> huge_memfd(std::size_t bytes) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB;
  Fd fd(::memfd_create(kName, kFlags));
  if (!fd) return fail_errno(errno, "creating a memfd of huge pages");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(errno, "sizing a memfd of huge pages to {} bytes", bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "sealing a memfd of huge pages");
  return fd;
}

// Before the first fault: pages already there do not move.
Status bind_to_node(std::span<std::byte> bytes, int node) {
  if (node < 0) return {};
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(static_cast<std::size_t>(node) / kBits + 1, 0);
  mask.back() = 1UL << (static_cast<std::size_t>(node) % kBits);
  // The kernel reads one bit less than it is told of.
  if (::syscall(SYS_mbind, bytes.data(), bytes.size(), MPOL_BIND, mask.data(),
                mask.size() * kBits + 1, 0) == 0)
    return {};
  int error = errno;
  if (error == EINVAL)
    return fail_errno(error, "binding an arena to NUMA node {} (is there such a node?)", node);
  logger().warn("arenas are not bound to NUMA node {}: mbind: {}", node, text_of_errno(error));
  return {};
}

// A kernel older than 5.14 does not know MADV_POPULATE_WRITE. There a lack of memory is a SIGBUS.
Status fault_in(std::span<std::byte> bytes) {
  while (::madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL)
      return fail(Code::kResourceExhausted,
                  "faulting in an arena of {} bytes: {}; free memory, raise the limits of the "
                  "control group or of /dev/shm, or lower arena_bytes",
                  bytes.size(), text_of_errno(errno));
    std::memset(bytes.data(), 0, bytes.size());
    return {};
  }
  return {};
}

Result<std::unique_ptr<Backing>> finish(Fd fd, std::size_t bytes, int numa_node) {
  Mapping mapping = FERRY_TRY(Mapping::shared(fd.get(), bytes));
  FERRY_TRY(bind_to_node(mapping.bytes(), numa_node));
  // Advice only: the kernel may be set to ignore it.
  ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  FERRY_TRY(fault_in(mapping.bytes()));
  return std::make_unique<HostBacking>(std::move(fd), std::move(mapping));
}

class HostKind final : public Kind {
 public:
  KindId id() const override { return KindId::kHost; }

  Result<std::unique_ptr<Backing>> allocate(std::size_t bytes, int numa_node) override {
    if (free_huge_pages() >= bytes / kHugePage) {
      // Somebody may be faster, or a control group may forbid it: ordinary pages will do.
      auto fd = huge_memfd(bytes);
      if (fd) {
        auto backing = finish(*std::move(fd), bytes, numa_node);
        if (backing) return backing;
      }
    }
    return finish(FERRY_TRY(sealed_memfd(kName, bytes)), bytes, numa_node);
  }

  Status fill(std::span<std::byte> to, std::byte value) override {
    std::memset(to.data(), static_cast<int>(value), to.size());
    return {};
  }

  Status copy(std::span<std::byte> to, std::span<const std::byte> from) override {
    if (to.size() != from.size())
      return fail(Code::kInvalidArgument, "copying {} bytes into {}", from.size(), to.size());
    std::memcpy(to.data(), from.data(), from.size());
    return {};
  }
};

}  // namespace

std::string_view name_of(KindId kind) { return kind == KindId::kHost ? "host" : "cuda"; }

Kind& host_kind() {
  static HostKind kind;
  return kind;
}

}  // namespace ferry::memory
