// A program for ps-lite: how many blocking pushes and pulls a second.
#include <chrono>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

// One value for each key, or one key for all values.
struct Add {
  void operator()(const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
    KVPairs<float> res;
    if (meta.push) {
      store.resize(data.vals.size());
      for (size_t i = 0; i < store.size(); ++i) store.data()[i] += data.vals.data()[i];
    }
    if (meta.pull) {
      res.keys = data.keys;
      res.vals = SArray<float>(store);
    }
    server->Response(meta, res);
  }
  std::vector<float> store;
};

int main(int argc, char* argv[]) {
  const int keys = argc > 1 ? atoi(argv[1]) : 1;
  const int vals = argc > 2 ? atoi(argv[2]) : 100000;
  const int rounds = argc > 3 ? atoi(argv[3]) : 100;
  Start(0);
  if (IsServer()) {
    auto server = new KVServer<float>(0);
    if (keys == vals)
      server->set_request_handle(KVServerDefaultHandle<float>());
    else
      server->set_request_handle(Add());
    RegisterExitCallback([server]() { delete server; });
  }
  if (IsWorker()) {
    KVWorker<float> kv(0, 0);
    SArray<Key> k(keys);
    for (int i = 0; i < keys; ++i) k[i] = i;
    SArray<float> v(vals, 1);
    SArray<float> out;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      kv.Wait(kv.ZPush(k, v));
      out.clear();
      kv.Wait(kv.ZPull(k, &out));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    for (int i = 0; i < vals; ++i) CHECK_EQ(out[i], float(rounds));
    printf("%d keys, %d values: %.0f rounds/s\n", keys, vals, rounds / took.count());
  }
  Finalize(0, true);
  return 0;
}
