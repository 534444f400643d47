// Tests of the parameter server; `ferry_ps_tests --role NAME ARGUMENT...` is a process of such a
// test.

#include <gtest/gtest.h>

#include <cstdlib>

#include "ferry/base/log.h"
#include "tests/ps/kit.h"

int main(int argc, char** argv) {
  ::setenv("FERRY_TUNING", "off", 1);
  // Failures are what the tests provoke; they judge them themselves.
  const char* level = std::getenv("FERRY_TEST_LOG");
  ferry::set_log_level(level != nullptr ? level : "off");
  if (argc > 2 && std::string(argv[1]) == "--role") {
    try {
      return ferry::ps::testing::play(argv[2], {argv + 3, argv + argc});
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "%s: %s\n", argv[2], problem.what());
      return 3;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
