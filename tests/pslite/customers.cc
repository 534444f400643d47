// A program for ps-lite: two customers in each worker process, and values of different lengths.
#include <thread>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

// Keeps what was pushed last, with its lengths.
struct Keep {
  void operator()(const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
    KVPairs<float> res;
    if (meta.push) kept[meta.cmd] = data;
    if (meta.pull) {
      CHECK(kept.count(meta.cmd)) << "nothing was pushed for " << meta.cmd;
      res = kept[meta.cmd];
    }
    server->Response(meta, res);
  }
  std::map<int, KVPairs<float>> kept;
};

void RunWorker(int customer_id) {
  Start(customer_id);
  KVWorker<float> kv(0, customer_id);
  const int cmd = MyRank() * 10 + customer_id;
  std::vector<Key> keys = {1, kMaxKey / 2 - 1, kMaxKey - 1};
  std::vector<int> lens = {1000, 20, 3};
  std::vector<float> vals(1023);
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < vals.size(); ++i) vals[i] = cmd * 1000.0F + round + i;
    kv.Wait(kv.Push(keys, vals, lens, cmd));
    std::vector<float> rets;
    std::vector<int> ret_lens;
    kv.Wait(kv.Pull(keys, &rets, &ret_lens, cmd));
    CHECK_EQ(rets.size(), vals.size());
    for (size_t i = 0; i < vals.size(); ++i) CHECK_EQ(rets[i], vals[i]);
    for (size_t i = 0; i < lens.size(); ++i) CHECK_EQ(ret_lens[i], lens[i]);
  }
  Finalize(customer_id, customer_id != 0);
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  const bool worker = std::string(Environment::Get()->find("DMLC_ROLE")) == "worker";
  if (worker) {
    Start(0);
    std::thread first([] {
      KVWorker<float> kv(0, 0);
      std::vector<float> rets;
      kv.Wait(kv.Push({7}, {1.5F}, {}, 999));
      kv.Wait(kv.Pull({7}, &rets, nullptr, 999));
      CHECK_EQ(rets[0], 1.5F);
    });
    std::thread second(RunWorker, 1);
    std::thread third(RunWorker, 2);
    first.join();
    second.join();
    third.join();
  } else {
    Start(0);
    if (IsServer()) {
      auto server = new KVServer<float>(0);
      server->set_request_handle(Keep());
      RegisterExitCallback([server]() { delete server; });
    }
  }
  Finalize(0, true);
  return 0;
}
