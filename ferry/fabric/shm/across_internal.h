#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/fabric/grant_table_internal.h"

namespace ferry::fabric::shm {

// Copies from another process's memory by the kernel: how many of the bytes at `address` there have
// come, from the beginning. 0: the kernel does not let us, the memory is not there, or `pid` is not
// the process that made `mark` (any more): its number was used again, or it runs another program.
std::size_t copy_from_process(std::int32_t pid, const GrantTable::Mark& mark,
                              std::span<std::byte> into, std::uint64_t address);

}  // namespace ferry::fabric::shm
