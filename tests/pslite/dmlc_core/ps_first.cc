// A program for ps-lite that uses dmlc-core, too, whichever folder of headers comes first. Here
// ps-lite's headers do.
#include "ps/ps.h"
// after it
#include <dmlc/logging.h>
#include <dmlc/parameter.h>

std::string core_first();

// What a check throws.
template <typename Run>
std::string Thrown(Run run) {
  try {
    run();
  } catch (const dmlc::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int main() {
  dmlc::InitLogging("dmlc_core");
  dmlc::Parameter parameter;
  CHECK(Has(Thrown([&] { parameter.Set(-1); }), "negative"));
  CHECK(Has(core_first(), "too large")) << core_first();
  // Both kinds of headers have one CHECK, and the library's errors are of the same type.
  CHECK(Has(Thrown([] { CHECK_EQ(1 + 1, 3); }), "(2 vs. 3)"));
  CHECK(Has(Thrown([] { ps::SArray<int>({1, 2}).segment(0, 3); }), "core "));
  CHECK(Has(Thrown([] { ps::Postoffice::Get()->GetNodeIDs(12345); }), "12345"));
  std::vector<int> values{7};
  CHECK_EQ(*dmlc::BeginPtr(values), 7);
  return 0;
}
