#include <gtest/gtest.h>

#include <cstring>

#include "tests/grpc/kit.h"
#include "tests/grpc/serve.h"

#ifdef FERRY_SANITIZED
// c-ares keeps what it has read of the system's configuration.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }
#endif

namespace {

// A client that calls without end, to be killed.
int call_for_ever(const char* address) {
  auto stub =
      ferry::test::Echo::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  ferry::test::Words asked;
  asked.set_payload(stamped(3 << 20, 1));
  for (bool first = true;; first = false) {
    grpc::ClientContext context;
    ferry::test::Words said;
    if (!stub->Unary(&context, asked, &said).ok()) return 1;
    if (!first) continue;
    std::puts("going");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--serve") == 0) return serve(argc, argv);
  if (argc > 2 && std::strcmp(argv[1], "--client") == 0) return call_for_ever(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
