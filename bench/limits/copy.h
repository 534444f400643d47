#pragma once

#include <cstddef>
#include <string>

namespace limits {

enum class Copy { kPlain, kStream };

// "plain" or "nt"; anything else throws Failure.
Copy copy_named(const std::string& name);

// Plain: the C library's memcpy. Stream: non-temporal stores of the widest kind this CPU has,
// followed by the fence that orders them before a flag.
void copy(Copy how, std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace limits
