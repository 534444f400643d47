// A program for ps-lite: a worker process calls Finalize(0, false) when its customer 1 waits at a
// barrier, and then the other worker process comes to that barrier.
//   pslite_leave_in_barrier FOLDER
// Files in FOLDER tell the processes how far the others are.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

template <class Ready>
void WaitUntil(Ready ready, const char* what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!ready()) {
    CHECK(std::chrono::steady_clock::now() < end) << "in vain: " << what;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void WaitForFile(const std::string& path) {
  WaitUntil([&] { return std::ifstream(path).good(); }, path.c_str());
}

// How often a thread of this process has gone to sleep.
long SleepsOf(long thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string word; status >> word;)
    if (long count = 0; word == "voluntary_ctxt_switches:" && status >> count) return count;
  return 0;
}

void LeaveInBarrier(const std::string& folder) {
  std::atomic<long> thread{0};
  std::thread customer([&] {
    thread = syscall(SYS_gettid);
    try {
      Postoffice::Get()->Barrier(1, kWorkerGroup);
    } catch (const dmlc::Error&) {
      // The system was finalized meanwhile.
    }
  });
  WaitUntil([&] { return thread != 0; }, "a thread");
  // Who waits at a barrier wakes up ten times a second; saying so takes a few times at most.
  const auto before = SleepsOf(thread);
  WaitUntil([&] { return SleepsOf(thread) > before + 30; }, "customer 1 to wait at the barrier");
  Finalize(0, false);
  customer.join();
  std::ofstream(folder + "/left").flush();
}

int main(int, char* argv[]) {
  const std::string folder = argv[1];
  Start(0);
  if (!IsWorker()) {
    WaitForFile(folder + "/met");
  } else if (MyRank() == 0) {
    LeaveInBarrier(folder);
    return 0;
  } else {
    WaitForFile(folder + "/left");
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the scheduler notices
    Postoffice::Get()->Barrier(1, kWorkerGroup);
    std::ofstream(folder + "/met").flush();
  }
  Finalize(0, false);
  return 0;
}
