// A program for ps-lite: the scheduler asks everybody, and everybody answers.
#include <atomic>
#include <string>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

std::atomic<int> num(0);

void ReqHandle(const SimpleData& req, SimpleApp* app) {
  CHECK_EQ(req.head, 1);
  CHECK_EQ(req.body, std::string("test"));
  app->Response(req, "here is " + std::to_string(req.timestamp));
  ++num;
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  const int n = 100;
  Start(0);
  SimpleApp app(0, 0);
  app.set_request_handle(ReqHandle);
  std::atomic<int> answers(0);
  app.set_response_handle([&](const SimpleData& res, SimpleApp*) {
    CHECK_EQ(res.body, "here is " + std::to_string(res.timestamp));
    ++answers;
  });
  Postoffice::Get()->Barrier(0, kScheduler + kServerGroup + kWorkerGroup);
  if (IsScheduler()) {
    std::vector<int> ts;
    for (int i = 0; i < n; ++i)
      ts.push_back(app.Request(1, "test", kScheduler + kServerGroup + kWorkerGroup));
    for (const int t : ts) app.Wait(t);
    CHECK_EQ(answers, n * (1 + NumServers() + NumWorkers()));
  }
  Finalize(0, true);
  CHECK_EQ(num, n);
  return 0;
}
