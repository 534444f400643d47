#pragma once

namespace ferry::bench {

// The commit that the program was built from, such as "e5a551110c"; "e5a551110c-dirty" with changes
// that were not committed, "unknown" without git. cmake/commit.cmake writes it at every build.
extern const char* const kCommit;

}  // namespace ferry::bench
