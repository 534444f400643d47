// Data path.
#include <sys/uio.h>

#include "ferry/fabric/shm/across_internal.h"

namespace ferry::fabric::shm {

namespace {
void* pointer_to(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}
}  // namespace

// One call looks the process up once, and reads all its parts from the address space found then. So
// a mark that is right proves that the bytes behind it are the owner's.
std::size_t copy_from_process(std::int32_t pid, const GrantTable::Mark& mark,
                              std::span<std::byte> into, std::uint64_t address) {
  std::uint64_t found = 0;
  const iovec here[] = {{&found, sizeof found}, {into.data(), into.size()}};
  const iovec there[] = {{pointer_to(mark.address), sizeof found},
                         {pointer_to(address), into.size()}};
  auto moved = ::process_vm_readv(pid, here, 2, there, 2, 0);
  if (moved <= static_cast<ssize_t>(sizeof found) || found != mark.value) return 0;
  return static_cast<std::size_t>(moved) - sizeof found;
}

}  // namespace ferry::fabric::shm
