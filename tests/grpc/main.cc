#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "tests/grpc/kit.h"
#include "tests/grpc/serve.h"

#ifdef FERRY_SANITIZED
// gRPC, Abseil and protobuf are not compiled with the thread sanitizer: their own accesses by way
// of the C library, under locks that it does not know, are left out; so is the thread that gRPC's
// executor leaves behind.
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:report_thread_leaks=0";
}
// c-ares keeps what it has read of the system's configuration.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }
#endif

namespace {

void set_argument(const std::string& setting, grpc::ChannelArguments& arguments) {
  const auto equals = setting.find('=');
  arguments.SetInt(setting.substr(0, equals), std::atoi(setting.substr(equals + 1).c_str()));
}

// A client that makes so many calls, and looks at the answers; 0: until it is killed. Its channel
// has these arguments, "NAME=NUMBER".
int call(const char* address, int count, std::span<char* const> settings = {}) {
  grpc::ChannelArguments arguments;
  for (const std::string setting : settings) set_argument(setting, arguments);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 120'000);
  auto stub = ferry::test::Echo::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  ferry::test::Words asked;
  asked.set_payload(stamped(3 << 20, 1));
  for (int i = 0; count == 0 || i < count; ++i) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    ferry::test::Words said;
    const auto status = stub->Unary(&context, asked, &said);
    if (!status.ok() || said.payload() != asked.payload()) {
      std::printf("call %d failed: %s\n", i, status.error_message().c_str());
      return 1;
    }
    if (i != 0) continue;
    std::puts("going");
    std::fflush(stdout);
  }
  return 0;
}

// A client that keeps the answers to so many raw calls of so many bytes, and then looks at them.
int keep(const char* address, int count, std::size_t bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  std::vector<grpc::ByteBuffer> kept;
  for (int i = 0; i < count; ++i) {
    grpc::Slice slice(stamped(bytes, static_cast<std::uint64_t>(i)));
    const auto status =
        call_raw(channel, kRawMethod, grpc::ByteBuffer(&slice, 1), &kept.emplace_back());
    if (status.ok()) continue;
    std::printf("call %d failed: %s\n", i, status.error_message().c_str());
    return 1;
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (text_of(kept[i]) != stamped(bytes, i)) return 2;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--serve") == 0) return serve(argc, argv);
  if (argc > 2 && std::strcmp(argv[1], "--client") == 0)
    return call(argv[2], argc > 3 ? std::atoi(argv[3]) : 0,
                std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 4 ? 4 : argc));
  if (argc > 4 && std::strcmp(argv[1], "--keep") == 0)
    return keep(argv[2], std::atoi(argv[3]), static_cast<std::size_t>(std::atol(argv[4])));
  // The same in two processes, of which one was forked from the other before.
  if (argc > 3 && std::strcmp(argv[1], "--forked-client") == 0) {
    const pid_t child = ::fork();
    const int result = call(argv[2], std::atoi(argv[3]));
    return child == 0 ? result : result + wait_for(child);
  }
  // What is measured is for the tests of that, which have folders of their own.
  ::setenv("FERRY_TUNING", "off", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
