// A program for ps-lite: all workers push to the same keys, of different lengths, and pull in one.
#include <map>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

const int kKeys = 1000;
const int kRounds = 10;

// Adds to what it has of each key, and answers with that.
struct Add {
  void operator()(const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* server) {
    CHECK(meta.pull);
    KVPairs<float> res;
    res.keys = data.keys;
    res.lens.resize(data.keys.size());
    std::vector<float> vals;
    size_t at = 0;
    for (size_t i = 0; i < data.keys.size(); ++i) {
      auto& kept = store[data.keys[i]];
      if (meta.push) {
        kept.resize(data.lens[i]);
        for (auto& value : kept) value += data.vals[at++];
      }
      res.lens[i] = static_cast<int>(kept.size());
      vals.insert(vals.end(), kept.begin(), kept.end());
    }
    res.vals.CopyFrom(vals.data(), vals.size());
    server->Response(meta, res);
  }
  std::map<Key, std::vector<float>> store;
};

void RunWorker() {
  KVWorker<float> kv(0, 0);
  std::vector<Key> keys(kKeys);
  std::vector<int> lens(kKeys);
  std::vector<float> mine;  // what this worker adds in a round
  for (int i = 0; i < kKeys; ++i) {
    keys[i] = kMaxKey / kKeys * i;
    lens[i] = 1 + i % 5;
    for (int j = 0; j < lens[i]; ++j) mine.push_back((MyRank() + 1) * (1 + (i + j) % 7));
  }
  const float all = NumWorkers() * (NumWorkers() + 1) / 2;  // of all ranks + 1
  std::vector<float> before(mine.size());
  for (int round = 1; round <= kRounds; ++round) {
    std::vector<float> outs;
    auto out_lens = lens;
    kv.Wait(kv.PushPull(keys, mine, &outs, &out_lens));
    CHECK_EQ(outs.size(), mine.size());
    for (int i = 0; i < kKeys; ++i) CHECK_EQ(out_lens[i], lens[i]) << "key " << i;
    for (size_t i = 0; i < mine.size(); ++i) {
      CHECK_GE(outs[i], before[i] + mine[i]) << "value " << i << " of round " << round;
      CHECK_LE(outs[i], kRounds * mine[i] / (MyRank() + 1) * all) << "value " << i;
    }
    before = outs;
  }
  Postoffice::Get()->Barrier(0, kWorkerGroup);
  std::vector<float> outs;
  std::vector<int> out_lens;
  kv.Wait(kv.Pull(keys, &outs, &out_lens));
  CHECK_EQ(outs.size(), mine.size());
  for (size_t i = 0; i < mine.size(); ++i)
    CHECK_EQ(outs[i], kRounds * mine[i] / (MyRank() + 1) * all) << "value " << i;
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  Start(0);
  if (IsServer()) {
    auto server = new KVServer<float>(0);
    server->set_request_handle(Add());
    RegisterExitCallback([server]() { delete server; });
  }
  if (IsWorker()) RunWorker();
  Finalize(0, true);
  return 0;
}
