// A program for ps-lite: nodes find each other, and leave.
//   pslite_connection [ROLE RANK HOW]: that one exits with the status HOW, or fails a check:
//   "abort".
#include "ps/ps.h"

int main(int argc, char* argv[]) {
  ps::Start(0);
  const std::string role = ps::IsScheduler() ? "scheduler" : ps::IsServer() ? "server" : "worker";
  if (argc == 4 && role == argv[1] && ps::MyRank() == std::atoi(argv[2])) {
    const std::string how = argv[3];
    CHECK(how != "abort");
    return std::atoi(argv[3]);
  }
  CHECK_EQ(ps::NumWorkers(), ps::GetEnv("DMLC_NUM_WORKER", 0));
  CHECK_EQ(ps::NumServers(), ps::GetEnv("DMLC_NUM_SERVER", 0));
  CHECK_EQ(ps::IsWorker() + ps::IsServer() + ps::IsScheduler(), 1);
  ps::Finalize(0, true);
  return 0;
}
