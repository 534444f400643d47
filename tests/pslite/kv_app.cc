// A program for ps-lite: 10,000 keys over all servers, 50 rounds.
#include <cmath>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

void StartServer() {
  if (!IsServer()) return;
  auto server = new KVServer<float>(0);
  server->set_request_handle(KVServerDefaultHandle<float>());
  RegisterExitCallback([server]() { delete server; });
}

void RunWorker() {
  if (!IsWorker()) return;
  KVWorker<float> kv(0, 0);
  const int num = 10000;
  std::vector<uint64_t> keys(num);
  std::vector<float> vals(num);
  const int rank = MyRank();
  srand(rank + 7);
  for (int i = 0; i < num; ++i) {
    keys[i] = kMaxKey / num * i + rank;
    vals[i] = (rand() % 1000);
  }
  const int repeat = 50;
  std::vector<int> ts;
  for (int i = 0; i < repeat; ++i) {
    ts.push_back(kv.Push(keys, vals));
    // not too many at a time
    if (i > 10) kv.Wait(ts[ts.size() - 10]);
  }
  for (int t : ts) kv.Wait(t);
  std::vector<float> rets;
  kv.Wait(kv.Pull(keys, &rets));
  CHECK_EQ(rets.size(), vals.size());
  float res = 0;
  for (int i = 0; i < num; ++i) res += std::fabs(rets[i] - vals[i] * repeat);
  CHECK_LT(res / repeat, 1e-5F);

  // pushes and pulls in one, with a callback
  std::vector<float> outs;
  bool called = false;
  kv.Wait(kv.PushPull(keys, vals, &outs, nullptr, 0, [&] {
    CHECK_EQ(outs.size(), vals.size());
    called = true;
  }));
  CHECK(called);
  for (int i = 0; i < num; ++i) CHECK_EQ(outs[i], vals[i] * (repeat + 1)) << "key " << i;

  // arrays that are shared, and a slicer that gives everything to the last server
  SArray<Key> zkeys(keys);
  SArray<float> zvals(vals);
  SArray<float> zouts;
  kv.Wait(kv.ZPushPull(zkeys, zvals, &zouts));
  for (int i = 0; i < num; ++i) CHECK_EQ(zouts[i], vals[i] * (repeat + 2)) << "key " << i;
  kv.set_slicer([](const KVPairs<float>& send, const std::vector<Range>& ranges,
                   KVWorker<float>::SlicedKVs* sliced) {
    sliced->resize(ranges.size());
    for (auto& each : *sliced) each.first = false;
    sliced->back() = {true, send};
  });
  kv.Wait(kv.ZPush(zkeys, zvals));
  SArray<float> again;
  kv.Wait(kv.ZPull(zkeys, &again));
  // what lay on other servers is not on the last one
  const Key last = NumServers() == 1 ? 0 : kMaxKey / NumServers() * (NumServers() - 1);
  for (int i = 0; i < num; ++i)
    CHECK_EQ(again[i], vals[i] * (keys[i] >= last ? repeat + 3 : 1)) << "key " << i;
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  Start(0);
  StartServer();
  RunWorker();
  Finalize(0, true);
  return 0;
}
