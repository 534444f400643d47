// A program for ps-lite: nodes find each other, and leave.
#include "ps/ps.h"

int main(int argc, char* argv[]) {
  ps::Start(0);
  // so that a launcher's verdict can be tried
  if (argc == 3 && ps::IsWorker() && ps::MyRank() == std::atoi(argv[1])) return std::atoi(argv[2]);
  CHECK_EQ(ps::NumWorkers(), ps::GetEnv("DMLC_NUM_WORKER", 0));
  CHECK_EQ(ps::NumServers(), ps::GetEnv("DMLC_NUM_SERVER", 0));
  CHECK_EQ(ps::IsWorker() + ps::IsServer() + ps::IsScheduler(), 1);
  ps::Finalize(0, true);
  return 0;
}
