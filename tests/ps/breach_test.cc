#include "ferry/ps/wire/protocol_version_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "ferry/ps/worker/core_internal.h"
#include "tests/ps/kit.h"

// A worker that writes into its ring what cannot be.

namespace ferry::ps::testing {
namespace {

struct BreachCase {
  Entry entry;
  Breach breach;
  int times = 1;  // that it is sent
};

class BrokenProtocol : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Provider, BrokenProtocol, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(BrokenProtocol, IsToldToTheWorkerThatBrokeIt) {
  const BreachCase cases[] = {
      {{.operation = static_cast<Operation>(9), .step = 1}, Breach::kOperation},
      {{.operation = Operation::kPush, .part = 77, .step = 1}, Breach::kPart},
      {{.operation = Operation::kPush, .blocks = 1, .slot = 4711, .step = 1}, Breach::kPayload},
      {{.operation = Operation::kPush, .blocks = 9, .bytes = 4096, .step = 1}, Breach::kBlocks},
      {{.operation = Operation::kRows, .bytes = 5, .step = 1, .count = 1}, Breach::kRows},
      {{.operation = Operation::kPush, .blocks = 1, .bytes = 400, .step = 1}, Breach::kTwice, 2},
      {{.operation = Operation::kEnd, .step = 1}, Breach::kEnd, 2}};
  for (const auto& each : cases) {
    for (const std::uint32_t replicas : {1U, 2U}) {
      Job job(GetParam(), {.servers = 2, .workers = 2, .block_bytes = 4096, .replicas = replicas});
      auto core = must(WorkerCore::open(job.worker_options(), soon()));
      const std::vector<float> ones(100, 1.0F);
      const auto w = must(core->init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
      auto& link = *must(core->tensor(w))->parts[0].link;
      for (int count = 0; count < each.times; ++count) ASSERT_TRUE(link.post(each.entry));
      const auto pulled = core->push_pull(w, raw(ones), soon());
      ASSERT_EQ(code_of(pulled), Code::kAborted);
      const auto said = "it broke the protocol: it " + std::string(text_of(each.breach)) + ";";
      EXPECT_NE(pulled.error().message().find(said), std::string::npos)
          << pulled.error().message() << " without " << said;
      // The job goes on: who is there is still asked.
      EXPECT_EQ(must(core->members(soon())).size(), 1U);
    }
  }
}

// What the scheduler had said before it knew, a server may hear after the end: it used to write the
// attempt over the cause, so that the worker went on with a job that had failed.
TEST(AbortedJob, ARestartThatComesAfterTheEndLeavesTheCause) {
  Job job("tcp", {.servers = 1, .workers = 2, .block_bytes = 4096});
  auto core = must(WorkerCore::open(job.worker_options(), soon()));
  const std::vector<float> ones(100, 1.0F);
  const auto w = must(core->init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
  auto device = must(fabric::Device::open(control_options(device_options("tcp"))));
  auto scheduler = must(RpcClient::connect(device, job.scheduler().endpoint(), soon()));
  Bytes wish;
  bootstrap::Encoder join(wish);
  put_protocol_version(join);
  join.u32(1);
  const auto answer = must(scheduler->call(Ask::kJoinWorker, wish, soon()));
  bootstrap::Decoder in(answer);
  const auto welcome = must(get_welcome(in));
  auto server = must(RpcClient::connect(device, welcome.servers[0].control, soon()));
  Bytes end;
  bootstrap::Encoder stop(end);
  put(stop,
      StopNotice{.failed = true, .cause = {AbortCause::Kind::kWorkersDied, 3}, .text = "over"});
  must(server->call(Ask::kStop, end, soon()));
  Bytes departure;  // of worker 1, which ended no step: the first one is begun anew
  bootstrap::Encoder(departure).u32(1).u64(0).u32(1).u64(1);
  must(server->call(Ask::kDepart, departure, soon()));
  const auto pulled = core->push_pull(w, raw(ones), soon());
  ASSERT_EQ(code_of(pulled), Code::kAborted);
  EXPECT_NE(pulled.error().message().find("3 workers have died"), std::string::npos)
      << pulled.error().message();
}

}  // namespace
}  // namespace ferry::ps::testing
