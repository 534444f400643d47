#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "ferry/memory/userfault_internal.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace ferry::memory {
namespace {

constexpr std::uint64_t kFeatures =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE;

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// Needs no privilege in user mode only (Linux 5.11); older kernels refuse the flag.
Fd create() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  long fd = ::syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY);
  if (fd < 0 && errno == EINVAL) fd = ::syscall(SYS_userfaultfd, kFlags);
  return Fd(static_cast<int>(fd));
}

}  // namespace

Result<Userfault> Userfault::open() {
  Fd fd = create();
  if (!fd)
    return fail_errno(errno,
                      "userfaultfd is refused (allow the system call in the container's seccomp "
                      "profile, or set vm.unprivileged_userfaultfd=1)");
  uffdio_api api{UFFD_API, kFeatures, 0};
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0)
    return fail_errno(errno, "this kernel's userfaultfd does not tell of unmapped memory");
  Userfault made(std::move(fd));
  FERRY_TRY(made.try_it_out());
  return made;
}

// Unmaps a page and sees whether the kernel does all that we build on.
Status Userfault::try_it_out() {
  Mapping page = FERRY_TRY(Mapping::anonymous(page_size()));
  auto start = reinterpret_cast<std::uintptr_t>(page.data());
  if (!watch(page.bytes()))
    return fail_errno(errno, "this kernel's userfaultfd has no write-protect mode (Linux 5.7 has)");
  bool settled_before = settled();
  std::thread unmapper([&page] { page.reset(); });
  pollfd event{fd_.get(), POLLIN, 0};
  ::poll(&event, 1, 1000);
  bool pending = !settled();
  Gone gone{};
  bool told = read_event(&gone) && gone.start == start;
  if (!told) fd_.reset();  // lets the unmapper go in any case
  unmapper.join();
  if (!told || !pending || !settled_before || !settled())
    return fail(Code::kUnimplemented,
                "this kernel's userfaultfd does not tell of unmapped memory in time");
  return {};
}

bool Userfault::watch(std::span<std::byte> range) const {
  auto start = reinterpret_cast<std::uintptr_t>(range.data());
  auto end = (start + range.size() + page_size() - 1) & ~(page_size() - 1);
  start &= ~(page_size() - 1);
  uffdio_register request{{start, end - start}, UFFDIO_REGISTER_MODE_WP, 0};
  return ::ioctl(fd_.get(), UFFDIO_REGISTER, &request) == 0;
}

// From the moment when a watched mapping begins to change until its event has been read, the kernel
// answers EAGAIN to this request before it looks at it; else it finds that the range is empty.
// try_it_out() makes sure of that.
bool Userfault::settled() const {
  uffdio_writeprotect nothing{{0, 0}, 0};
  return ::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &nothing) != 0 && errno == EINVAL;
}

bool Userfault::read_event(Gone* gone) const {
  for (;;) {
    uffd_msg message;
    if (::read(fd_.get(), &message, sizeof message) != sizeof message) return false;
    switch (message.event) {
      case UFFD_EVENT_UNMAP:
      case UFFD_EVENT_REMOVE:
        *gone = {message.arg.remove.start, message.arg.remove.end};
        return true;
      case UFFD_EVENT_REMAP:
        *gone = {message.arg.remap.from, message.arg.remap.from + message.arg.remap.len};
        return true;
      default:
        break;  // nothing else was asked for
    }
  }
}

}  // namespace ferry::memory
