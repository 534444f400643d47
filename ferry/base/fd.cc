#include "ferry/base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Fd> Fd::duplicate() const {
  Fd copy(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno(errno, "duplicating file descriptor {}", fd_);
  return copy;
}

Result<Mapping> Mapping::shared(int fd, std::size_t length, bool writable) {
  int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* at = ::mmap(nullptr, length, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return fail_errno(errno, "mapping {} shared bytes", length);
  return Mapping({static_cast<std::byte*>(at), length});
}

Result<Mapping> Mapping::anonymous(std::size_t length) {
  void* at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return fail_errno(errno, "mapping {} private bytes", length);
  return Mapping({static_cast<std::byte*>(at), length});
}

void Mapping::reset() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

Result<Fd> sealed_memfd(const char* name, std::size_t length) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno(errno, "creating memfd '{}' (raise the open-files limit?)", name);
  if (::ftruncate(fd.get(), static_cast<off_t>(length)) != 0)
    return fail_errno(errno, "sizing memfd '{}' to {} bytes", name, length);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "sealing memfd '{}'", name);
  return fd;
}

}  // namespace ferry
