#pragma once

#include <ps/base.h>
#include <ps/simple_app.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ps {

// Keys in ascending order, and the values of each: as many as `lens` says, or all the same number.
template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  int priority = 0;
};

// Pushes values to the servers, and pulls them.
template <typename Val>
class KVWorker : public SimpleApp {
 public:
  using SimpleApp::obj_;
  using Callback = std::function<void()>;
  using SlicedKVs = std::vector<std::pair<bool, KVPairs<Val>>>;
  // Cuts a request into one for each server; false: nothing for that one.
  using Slicer = std::function<void(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                                    SlicedKVs* sliced)>;

  explicit KVWorker(int app_id, int customer_id) : SimpleApp() {
    slicer_ = [this](const KVPairs<Val>& send, const std::vector<Range>& ranges,
                     SlicedKVs* sliced) { DefaultSlicer(send, ranges, sliced); };
    obj_ = new Customer(app_id, customer_id, [this](const Message& msg) { Process(msg); });
  }
  ~KVWorker() override { Stop(); }

  // The data is copied. Each returns a timestamp for Wait(); none of them blocks.
  int Push(const std::vector<Key>& keys, const std::vector<Val>& vals,
           const std::vector<int>& lens = {}, int cmd = 0, const Callback& cb = nullptr,
           int priority = 0) {
    return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb, priority);
  }
  // `vals` and `lens` are filled when Wait() returns, and before `cb` is called.
  int Pull(const std::vector<Key>& keys, std::vector<Val>* vals, std::vector<int>* lens = nullptr,
           int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    const SArray<Key> all(keys);
    const int ts = Expect(all, vals, lens, cmd, cb);
    KVPairs<Val> kvs;
    kvs.keys = all;
    kvs.priority = priority;
    Send(ts, false, true, cmd, kvs);
    return ts;
  }
  int PushPull(const std::vector<Key>& keys, const std::vector<Val>& vals, std::vector<Val>* outs,
               std::vector<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
               int priority = 0) {
    CHECK_NOTNULL(outs);
    if (outs->empty())
      outs->resize(vals.size());
    else
      CHECK_EQ(vals.size(), outs->size());
    KVPairs<Val> kvs;
    kvs.keys = SArray<Key>(keys);
    kvs.vals = SArray<Val>(vals);
    kvs.priority = priority;
    if (lens != nullptr && lens->size() == keys.size()) kvs.lens = SArray<int>(*lens);
    const int ts = Expect(kvs.keys, outs, lens, cmd, cb);
    Send(ts, true, true, cmd, kvs);
    return ts;
  }

  // The data is not copied by the call; it stays as it is until Wait() returns.
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {},
            int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    const int ts = obj_->NewRequest(kServerGroup);
    AddCallback(ts, cb);
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.vals = vals;
    kvs.lens = lens;
    kvs.priority = priority;
    Send(ts, true, false, cmd, kvs);
    return ts;
  }
  int ZPull(const SArray<Key>& keys, SArray<Val>* vals, SArray<int>* lens = nullptr, int cmd = 0,
            const Callback& cb = nullptr, int priority = 0) {
    const int ts = Expect(keys, vals, lens, cmd, cb);
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.priority = priority;
    Send(ts, false, true, cmd, kvs);
    return ts;
  }
  int ZPushPull(const SArray<Key>& keys, const SArray<Val>& vals, SArray<Val>* outs,
                SArray<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
                int priority = 0) {
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.vals = vals;
    kvs.priority = priority;
    if (lens != nullptr && lens->size() == keys.size()) kvs.lens = *lens;
    const int ts = Expect(keys, outs, lens, cmd, cb);
    Send(ts, true, true, cmd, kvs);
    return ts;
  }
  void Wait(int timestamp) override { obj_->WaitRequest(timestamp); }
  void set_slicer(const Slicer& slicer) {
    CHECK(slicer);
    slicer_ = slicer;
  }

 private:
  void AddCallback(int timestamp, const Callback& cb) {
    if (!cb) return;
    std::lock_guard<std::mutex> lock(mu_);
    callbacks_[timestamp] = cb;
  }
  void RunCallback(int timestamp) {
    Callback cb;
    {
      std::lock_guard<std::mutex> lock(mu_);
      const auto found = callbacks_.find(timestamp);
      if (found == callbacks_.end()) return;
      cb = std::move(found->second);
      callbacks_.erase(found);
    }
    if (cb) cb();
  }
  // A request whose answers go to `vals` and `lens`.
  template <typename Vals, typename Lens>
  int Expect(const SArray<Key>& keys, Vals* vals, Lens* lens, int cmd, const Callback& cb) {
    (void)cmd;
    const int ts = obj_->NewRequest(kServerGroup);
    AddCallback(ts, [this, ts, keys, vals, lens, cb] {
      Collect(ts, keys, vals, lens);
      if (cb) cb();
    });
    return ts;
  }
  template <typename Vals, typename Lens>
  void Collect(int ts, const SArray<Key>& keys, Vals* vals, Lens* lens);
  static void Take(SArray<Val>* vals, const SArray<Val>& only) {
    if (vals->empty())
      *vals = only;
    else
      std::copy(only.begin(), only.end(), vals->begin());
  }
  static void Take(std::vector<Val>* vals, const SArray<Val>& only) {
    if (vals->empty())
      vals->assign(only.begin(), only.end());
    else
      std::copy(only.begin(), only.end(), vals->begin());
  }
  void Send(int timestamp, bool push, bool pull, int cmd, const KVPairs<Val>& kvs);
  void Process(const Message& msg);
  static void DefaultSlicer(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                            SlicedKVs* sliced);

  Slicer slicer_;
  std::mutex mu_;
  std::unordered_map<int, std::vector<KVPairs<Val>>> recv_kvs_;
  std::unordered_map<int, Callback> callbacks_;
};

// What a request to a server is.
struct KVMeta {
  int cmd = 0;
  bool push = false;
  bool pull = false;
  int sender = 0;
  int timestamp = 0;
  int customer_id = 0;
};

// Handles requests of workers, on the thread of its customer, or, in a process that never had more
// than one customer, mostly on the thread that receives.
template <typename Val>
class KVServer : public SimpleApp {
 public:
  using SimpleApp::obj_;
  // The data is good for as long as somebody has a copy of the arrays.
  using ReqHandle =
      std::function<void(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer* server)>;
  explicit KVServer(int app_id) : SimpleApp() {
    obj_ = new Customer(app_id, app_id, [this](const Message& msg) { Process(msg); });
  }
  ~KVServer() override { Stop(); }

  void set_request_handle(const ReqHandle& request_handle) {
    CHECK(request_handle) << "the request handle is empty";
    std::lock_guard<std::mutex> lock(mu_);
    handle_ = request_handle;
    set_.notify_all();
  }
  void Response(const KVMeta& req, const KVPairs<Val>& res = KVPairs<Val>()) {
    Message msg;
    msg.meta.app_id = obj_->app_id();
    msg.meta.customer_id = req.customer_id;
    msg.meta.request = false;
    msg.meta.push = req.push;
    msg.meta.pull = req.pull;
    msg.meta.head = req.cmd;
    msg.meta.timestamp = req.timestamp;
    msg.meta.recver = req.sender;
    if (!res.keys.empty()) {
      msg.AddData(res.keys);
      msg.AddData(res.vals);
      if (!res.lens.empty()) msg.AddData(res.lens);
    }
    Postoffice::Get()->Send(msg);
  }

 private:
  void Process(const Message& msg) {
    if (msg.meta.simple_app) {
      SimpleApp::Process(msg);
      return;
    }
    const KVMeta meta{msg.meta.head,   msg.meta.push,      msg.meta.pull,
                      msg.meta.sender, msg.meta.timestamp, msg.meta.customer_id};
    KVPairs<Val> data;
    if (!msg.data.empty()) {
      CHECK_GE(msg.data.size(), std::size_t{2});
      data.keys = msg.data[0];
      data.vals = msg.data[1];
      if (msg.data.size() > 2) {
        data.lens = msg.data[2];
        CHECK_EQ(data.lens.size(), data.keys.size());
      }
    }
    // Workers may be quicker than set_request_handle().
    std::unique_lock<std::mutex> lock(mu_);
    const bool there = set_.wait_for(lock, std::chrono::seconds(30), [this] { return !!handle_; });
    CHECK(there) << "a worker has sent a request, and no request handle is set";
    lock.unlock();
    handle_(meta, data, this);
  }
  std::mutex mu_;
  std::condition_variable set_;
  ReqHandle handle_;
};

// Adds what is pushed to what is there, one value for each key.
template <typename Val>
struct KVServerDefaultHandle {
  void operator()(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer<Val>* server) {
    const auto n = req_data.keys.size();
    if (req_meta.push) CHECK_EQ(n, req_data.vals.size());
    find(req_data.keys);
    KVPairs<Val> res;
    const Val* pushed = req_data.vals.data();
    if (req_meta.push && in_a_row_) {
      Val* to = values_.data() + first_;
      for (std::size_t i = 0; i < n; ++i) to[i] += pushed[i];
    } else if (req_meta.push) {
      for (std::size_t i = 0; i < n; ++i) values_[positions_[i]] += pushed[i];
    }
    if (req_meta.pull && in_a_row_) {
      res.keys = req_data.keys;
      res.vals.CopyFrom(values_.data() + first_, n);
    } else if (req_meta.pull) {
      res.keys = req_data.keys;
      res.vals.resize(n);
      for (std::size_t i = 0; i < n; ++i) res.vals.data()[i] = values_[positions_[i]];
    }
    server->Response(req_meta, res);
  }

 private:
  // Workers ask for the same keys again and again: where these are is remembered.
  void find(const SArray<Key>& keys) {
    if (keys.size() == keys_.size() &&
        (keys.data() == keys_.data() || std::equal(keys.begin(), keys.end(), keys_.begin())))
      return;
    keys_ = keys;
    positions_.resize(keys.size());
    in_a_row_ = true;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [at, fresh] = index_.emplace(keys.data()[i], values_.size());
      if (fresh) values_.push_back(Val());
      positions_[i] = at->second;
      if (positions_[i] != positions_[0] + i) in_a_row_ = false;
    }
    first_ = positions_.empty() ? 0 : positions_[0];
  }
  std::unordered_map<Key, std::size_t> index_;
  std::vector<Val> values_;
  SArray<Key> keys_;
  std::vector<std::size_t> positions_;
  bool in_a_row_ = false;  // the positions
  std::size_t first_ = 0;
};

template <typename Val>
void KVWorker<Val>::DefaultSlicer(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                                  SlicedKVs* sliced) {
  sliced->resize(ranges.size());
  const auto n = send.keys.size();
  std::size_t each = 0;  // values of a key
  if (send.lens.empty()) {
    if (n > 0) {
      each = send.vals.size() / n;
      CHECK_EQ(each * n, send.vals.size()) << "all keys have the same number of values, or lens";
    }
  } else {
    CHECK_EQ(n, send.lens.size());
  }
  std::size_t key_at = 0;
  std::size_t val_at = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto last = i + 1 == ranges.size();
    const auto* end = last ? send.keys.end()
                           : std::lower_bound(send.keys.begin() + key_at, send.keys.end(),
                                              static_cast<Key>(ranges[i].end()));
    const auto key_end = static_cast<std::size_t>(end - send.keys.begin());
    auto& to = sliced->at(i);
    to.first = key_end > key_at;
    if (!to.first) continue;
    std::size_t vals = each * (key_end - key_at);
    to.second.keys = send.keys.segment(key_at, key_end);
    if (!send.lens.empty()) {
      to.second.lens = send.lens.segment(key_at, key_end);
      for (const int len : to.second.lens) vals += static_cast<std::size_t>(len);
    }
    if (!send.vals.empty()) {
      to.second.vals = send.vals.segment(val_at, val_at + vals);
      val_at += vals;
    }
    key_at = key_end;
  }
}

template <typename Val>
void KVWorker<Val>::Send(int timestamp, bool push, bool pull, int cmd, const KVPairs<Val>& kvs) {
  SlicedKVs sliced;
  slicer_(kvs, Postoffice::Get()->GetServerKeyRanges(), &sliced);
  // Before anything is sent: the last answer finds all others counted.
  int skipped = 0;
  for (const auto& each : sliced)
    if (!each.first) ++skipped;
  const bool nothing = skipped == static_cast<int>(sliced.size());
  if (nothing) RunCallback(timestamp);
  if (skipped > 0) obj_->AddResponse(timestamp, skipped);
  for (std::size_t i = 0; i < sliced.size(); ++i) {
    if (!sliced[i].first) continue;
    const auto& part = sliced[i].second;
    Message msg;
    msg.meta.app_id = obj_->app_id();
    msg.meta.customer_id = obj_->customer_id();
    msg.meta.request = true;
    msg.meta.push = push;
    msg.meta.pull = pull;
    msg.meta.head = cmd;
    msg.meta.timestamp = timestamp;
    msg.meta.recver = Postoffice::ServerRankToID(static_cast<int>(i));
    msg.meta.priority = kvs.priority;
    msg.AddData(part.keys);
    msg.AddData(part.vals);
    if (!part.lens.empty()) msg.AddData(part.lens);
    Postoffice::Get()->Send(msg);
  }
}

template <typename Val>
void KVWorker<Val>::Process(const Message& msg) {
  if (msg.meta.simple_app) {
    SimpleApp::Process(msg);
    return;
  }
  const int ts = msg.meta.timestamp;
  if (msg.meta.pull) {
    CHECK_GE(msg.data.size(), std::size_t{2});
    KVPairs<Val> kvs;
    kvs.keys = msg.data[0];
    kvs.vals = msg.data[1];
    if (msg.data.size() > 2) kvs.lens = msg.data[2];
    std::lock_guard<std::mutex> lock(mu_);
    recv_kvs_[ts].push_back(kvs);
  }
  // This answer is counted after it was processed.
  if (obj_->NumResponse(ts) == Postoffice::Get()->num_servers() - 1) RunCallback(ts);
}

template <typename Val>
template <typename Vals, typename Lens>
void KVWorker<Val>::Collect(int ts, const SArray<Key>& keys, Vals* vals, Lens* lens) {
  std::vector<KVPairs<Val>> kvs;
  {
    std::lock_guard<std::mutex> lock(mu_);
    kvs = std::move(recv_kvs_[ts]);
    recv_kvs_.erase(ts);
  }
  std::sort(kvs.begin(), kvs.end(), [](const KVPairs<Val>& a, const KVPairs<Val>& b) {
    return a.keys.front() < b.keys.front();
  });
  std::size_t all_keys = 0;
  std::size_t all_vals = 0;
  for (const auto& each : kvs) {
    all_keys += each.keys.size();
    all_vals += each.vals.size();
    if (lens != nullptr) CHECK_EQ(each.lens.size(), each.keys.size()) << "servers sent no lens";
  }
  CHECK_EQ(all_keys, keys.size()) << "lost some servers?";
  if (!vals->empty()) CHECK_EQ(vals->size(), all_vals) << "what was pulled has another size";
  if (kvs.size() == 1) {
    Take(vals, kvs.front().vals);
  } else if (all_vals > 0) {
    if (vals->empty()) vals->resize(all_vals);
    Val* to = vals->data();
    for (const auto& each : kvs) to = std::copy(each.vals.begin(), each.vals.end(), to);
  }
  if (lens == nullptr) return;
  if (lens->empty()) lens->resize(all_keys);
  CHECK_EQ(lens->size(), all_keys);
  int* to = lens->data();
  for (const auto& each : kvs) to = std::copy(each.lens.begin(), each.lens.end(), to);
}

}  // namespace ps
