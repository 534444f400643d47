// One half of a program for ps-lite that uses dmlc-core, too: here dmlc-core's headers come first.
#include <dmlc/parameter.h>
// after it
#include "ps/ps.h"

std::string core_first() {
  dmlc::Parameter parameter;
  parameter.Set(5);
  CHECK_EQ(parameter.value, 5);
  ps::SArray<int> array{1, 2, 3};
  CHECK_EQ(array.segment(1, 3).size(), 2U);
  try {
    parameter.Set(100);
  } catch (const dmlc::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
