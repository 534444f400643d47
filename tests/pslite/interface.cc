// A program for ps-lite: what programs use besides stores. In a job of any size; says nothing.
#include <cstring>
#include <future>
#include <iostream>
#include <sstream>

#include "ps/ps.h"

using namespace ps;  // NOLINT: as programs for ps-lite do

struct Unprintable {
  int value = 0;
  bool operator==(const Unprintable& other) { return value == other.value; }  // not const
  bool operator<(const Unprintable& other) const { return value < other.value; }
};
enum class Color { kRed, kBlue };
struct Bits {
  unsigned low : 4;
};
struct Constants {
  static const std::size_t kMost = 7;  // declared only
};

// What standard error gets while `run` runs.
template <typename Run>
std::string Said(Run run) {
  std::ostringstream text;
  auto* before = std::cerr.rdbuf(text.rdbuf());
  run();
  std::cerr.rdbuf(before);
  return text.str();
}

// What a check throws.
template <typename Run>
std::string Thrown(Run run) {
  std::string what;
  const auto said = Said([&] {
    try {
      run();
    } catch (const dmlc::Error& error) {
      what = error.what();
    }
  });
  CHECK(!what.empty()) << "nothing was thrown";
  CHECK(said.find(what) != std::string::npos) << "what was thrown was not printed: " << said;
  return what;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void Checks() {
  Unprintable one{1};
  Unprintable two{2};
  Bits bits{3};
  int* null = nullptr;
  CHECK_EQ(one, Unprintable{1});
  CHECK_LT(one, two);
  CHECK_EQ(Color::kRed, Color::kRed);
  CHECK_NE(Color::kRed, Color::kBlue);
  CHECK_EQ(bits.low, 3U);
  CHECK_EQ(null, nullptr);
  CHECK_EQ(null, NULL);
  CHECK_EQ(Constants::kMost, std::size_t{7});
  CHECK_EQ(CHECK_NOTNULL(&one)->value, 1);
  DCHECK_EQ(one, Unprintable{1}) << "and more";
  bool other = false;
  if (one.value == 2)
    CHECK(false);
  else
    other = true;
  CHECK(other) << "an else belongs to the if, not to the check";
  CHECK(Has(Thrown([&] { CHECK_EQ(one, two) << "said " << 5; }), "said 5"));
  CHECK(Has(Thrown([&] { CHECK_NOTNULL(null); }), "notnull: null"));
  CHECK(Has(Thrown([] { LOG(FATAL) << "the end"; }), "the end"));
  CHECK(Has(Thrown([] { Postoffice::Get()->GetNodeIDs(12345); }), "12345"));
}

void Logs() {
  dmlc::InitLogging("interface");
  CHECK(Has(Said([] { VLOG(3) << "volume"; }), "volume"));
  CHECK(Has(Said([] { LOG_IF(WARNING, 1 < 2) << "if"; }), "if"));
#ifdef NDEBUG
  CHECK(Has(Said([] { LOG(DFATAL) << "only said"; }), "only said"));
  CHECK(Said([] { DLOG(INFO) << "nothing"; }).empty());
#else
  CHECK(Has(Thrown([] { LOG(DFATAL) << "thrown"; }), "thrown"));
#endif
  const int n = 10;
  const auto said = Said([&] {
    for (int i = 0; i < 25; ++i) LOG_EVERY_N(INFO, n) << "number " << i << ";";
  });
  CHECK(Has(said, "number 0;") && Has(said, "number 10;") && Has(said, "number 20;")) << said;
  CHECK(!Has(said, "number 1;") && !Has(said, "number 11;")) << said;
}

void Variables() {
  setenv("PSLITE_TEXT", "a text", 1);
  setenv("PSLITE_NUMBER", "12", 1);
  setenv("PSLITE_REAL", "0.5", 1);
  CHECK_EQ(std::string(GetEnv("PSLITE_TEXT", "none")), "a text");
  CHECK_EQ(std::string(GetEnv("PSLITE_ABSENT", "none")), "none");
  CHECK_EQ(GetEnv("PSLITE_TEXT", std::string("none")), "a text");
  CHECK_EQ(GetEnv("PSLITE_ABSENT", std::string("none")), "none");
  CHECK_EQ(GetEnv("PSLITE_NUMBER", 3), 12);
  CHECK_EQ(GetEnv("PSLITE_NUMBER", std::size_t{3}), std::size_t{12});
  CHECK_EQ(GetEnv("PSLITE_NUMBER", false), true);
  CHECK_EQ(GetEnv("PSLITE_REAL", 1.0), 0.5);
}

void Words() {
  Van* van = Postoffice::Get()->van();
  CHECK(van->IsReady());
  const Node& me = van->my_node();
  const auto role = IsScheduler() ? Node::SCHEDULER : IsServer() ? Node::SERVER : Node::WORKER;
  CHECK_EQ(me.role, role);
  CHECK_EQ(Postoffice::IDtoRank(me.id), MyRank());
  CHECK_EQ(me.hostname, "127.0.0.1");
  CHECK(me.port > 0 && me.port < 65536) << me.port;
  CHECK(!me.is_recovery && !Postoffice::Get()->is_recovery());
  CHECK(Has(me.DebugString(), "port=" + std::to_string(me.port))) << me.DebugString();
  CHECK(Has(me.ShortDebugString(), "[" + std::to_string(me.id) + "]")) << me.ShortDebugString();
  const int stamp = van->GetTimestamp();
  CHECK_EQ(van->GetTimestamp(), stamp + 1);

  Message message;
  CHECK(message.meta.control.empty());
  CHECK_EQ(message.meta.sender, Meta::kEmpty);
  message.meta.control.cmd = Control::BARRIER;
  message.meta.control.barrier_group = kWorkerGroup;
  message.meta.control.node.push_back(me);
  CHECK(Has(message.DebugString(), "cmd=BARRIER")) << message.DebugString();
  CHECK(Has(message.DebugString(), "barrier_group=4")) << message.DebugString();
  message.meta.control = Control();
  message.AddData(SArray<float>(3));
  message.AddData(SArray<Key>(2));
  CHECK_EQ(message.meta.data_size, 28);
  CHECK(Has(message.DebugString(), "FLOAT UINT64")) << message.DebugString();
  CHECK_EQ(GetDataType<const int>(), INT32);
}

// A message by hand: the scheduler gets it as it was sent.
void Messages() {
  std::promise<Message> promise;
  Customer customer(1, 1, [&](const Message& message) { promise.set_value(message); });
  Postoffice::Get()->Barrier(0, kScheduler + kServerGroup + kWorkerGroup);
  if (IsWorker() && MyRank() == 0) {
    Message message;
    message.meta.app_id = 1;
    message.meta.customer_id = 1;
    message.meta.timestamp = customer.NewRequest(kScheduler);
    message.meta.head = 77;
    message.meta.recver = kScheduler;
    message.AddData(SArray<double>(4, 2.5));
    CHECK_EQ(Postoffice::Get()->van()->Send(message), 32);
  }
  if (IsScheduler()) {
    const Message got = promise.get_future().get();
    CHECK_EQ(got.meta.head, 77);
    CHECK(got.meta.data_type == std::vector<DataType>{DOUBLE}) << got.DebugString();
    CHECK_EQ(SArray<double>(got.data.at(0))[3], 2.5);
    CHECK_EQ(got.meta.data_size, 32);
  }
  Postoffice::Get()->Barrier(0, kScheduler + kServerGroup + kWorkerGroup);
}

int main() {
  CHECK(Has(Thrown([] { Postoffice::Get()->van()->my_node(); }), "Start()"));
  Start(0);
  Checks();
  Logs();
  Variables();
  Words();
  Messages();
  Finalize(0, true);
  CHECK(!Postoffice::Get()->van()->IsReady());
  return 0;
}
