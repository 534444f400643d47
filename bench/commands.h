#pragma once

namespace ferry::bench {

// The program `ferry-bench`: the commands of `ferry bench`, and the programs that these start.
int run_ferry_bench(int argc, const char* const* argv);

}  // namespace ferry::bench
