#pragma once

namespace ferry::runtime {

// Which copies a crossing makes, as the papers compare it: none; one into registered memory before
// each send; private buffers and a copy on both sides.
enum class Copies { kNone, kSender, kBoth };

}  // namespace ferry::runtime
