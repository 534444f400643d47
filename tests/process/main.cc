// Tests that span processes.
//
//   ferry_process_tests [--storm-seconds=N] [gtest flags]

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/process/storm.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string seconds = "--storm-seconds=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(seconds, 0) != 0) {
      std::fprintf(stderr, "unknown option '%s'\n", argv[i]);
      return 2;
    }
    ferry::process::storm_seconds() = std::stod(argument.substr(seconds.size()));
  }
  return RUN_ALL_TESTS();
}
