#pragma once

namespace ferry::cli {

// The program `ferry`: all of its commands, and what the command line wants of them.
int run_ferry(int argc, const char* const* argv);

}  // namespace ferry::cli
