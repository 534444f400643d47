// A program for ps-lite: one worker process, whose threads are customers that each call Start().
//   pslite_multi_workers CUSTOMERS [FILE]
// DMLC_NUM_WORKER is the number of calls of Start() in all worker processes; with one worker
// declared, further customers share its rank. Customer 0 is quicker than the others. With FILE,
// workers end when it is there.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

// All threads of a process meet here, without the library.
struct Meeting {
  void wait_for(int all) {
    std::unique_lock<std::mutex> lock(mutex);
    ++come;
    changed.notify_all();
    changed.wait(lock, [&] { return come >= all; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  int come = 0;
};
Meeting meeting;

void WaitForFile(const std::string& path) {
  for (int tries = 0; !path.empty() && !std::ifstream(path).good(); ++tries) {
    CHECK_LT(tries, 6000) << path << " does not come";
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void RunWorker(int customer_id, int customers, const std::string& file) {
  Start(customer_id);
  CHECK_LT(MyRank(), NumWorkers());
  meeting.wait_for(customers);
  KVWorker<float> kv(0, customer_id);
  const int num = 1000;
  const int rounds = customer_id == 0 ? 1 : 50;
  std::vector<Key> keys(num);
  std::vector<float> vals(num);
  for (int i = 0; i < num; ++i) {
    keys[i] = kMaxKey / num * i + MyRank() * customers + customer_id;
    vals[i] = i % 100 + customer_id;
  }
  for (int i = 0; i < rounds; ++i) kv.Wait(kv.Push(keys, vals));
  std::vector<float> rets;
  kv.Wait(kv.Pull(keys, &rets));
  CHECK_EQ(rets.size(), vals.size());
  for (int i = 0; i < num; ++i) CHECK_EQ(rets[i], vals[i] * rounds) << "key " << i;
  std::vector<float> outs;
  kv.Wait(kv.PushPull(keys, vals, &outs));
  for (int i = 0; i < num; ++i) CHECK_EQ(outs[i], vals[i] * (rounds + 1)) << "key " << i;
  WaitForFile(file);
  Finalize(customer_id, true);
}

int main(int argc, char* argv[]) {
  const int customers = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string file = argc > 2 ? argv[2] : "";
  if (std::string(Environment::Get()->find("DMLC_ROLE")) != "worker") {
    Start(0);
    if (IsServer()) {
      auto server = new KVServer<float>(0);
      server->set_request_handle(KVServerDefaultHandle<float>());
      RegisterExitCallback([server]() { delete server; });
    }
    Finalize(0, true);
    return 0;
  }
  std::vector<std::thread> threads;
  for (int id = 0; id < customers; ++id) threads.emplace_back(RunWorker, id, customers, file);
  for (auto& thread : threads) thread.join();
  return 0;
}
