// Peer: gRPC among many processes, as generated code does it: blocking unary calls with protobuf
// bytes to a synchronous server, over TCP loopback or, with --over unix, local sockets. Measures
// once and prints `ok value=<number>`.
//
//   --pattern server   calls per second of one server with --clients clients; 64 B come back
//   --pattern mesh     GB/s of four processes that send to each other
//
// Everything is forked before gRPC starts: it does not survive a fork.
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/limits/args.h"
#include "bench/limits/link.h"
#include "bench/limits/team.h"
#include "bench/limits/tensor.h"

namespace limits {
namespace {

using google::protobuf::BytesValue;

constexpr const char* kMethod = "/ferry.Many/Call";
constexpr int kNodes = 4;
constexpr int kTrialRounds = 4;
constexpr std::size_t kAnswerBytes = 64;
// Where a request says whose it is.
constexpr std::size_t kNameAt = 8;
// Of the time measured, what goes before it.
constexpr double kWarmShare = 0.2;

struct Setting {
  int clients = 4;
  std::uint64_t bytes = 4096;
  double seconds = 2;
  bool local = false;
};

std::span<std::byte> bytes_of(BytesValue& message) {
  auto& text = *message.mutable_value();
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

void check_marks(const BytesValue& message, std::uint64_t bytes, std::uint64_t mark) {
  const std::array pieces = {std::as_bytes(std::span(message.value()))};
  if (message.value().size() != bytes || missing_stamps(pieces, bytes, mark) > 0)
    throw Failure("WRONG DATA: a message lacks its marks");
}

// What protoc would generate for `rpc Call(BytesValue) returns (BytesValue)`. Each client's calls
// come one after the other; its name is in the message, behind the first mark.
class Service final : public grpc::Service {
 public:
  Service(std::uint64_t bytes, bool reads) : bytes_(bytes), reads_(reads) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        kMethod, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<Service, BytesValue, BytesValue>(
            [](Service* service, grpc::ServerContext*, const BytesValue* request,
               BytesValue* reply) { return service->call(*request, *reply); },
            this)));
  }

 private:
  grpc::Status call(const BytesValue& request, BytesValue& reply) {
    try {
      std::uint64_t client = 0;
      if (request.value().size() != bytes_) throw Failure("WRONG DATA: a message is cut off");
      std::memcpy(&client, request.value().data() + kNameAt, sizeof client);
      const auto mark = call_mark(++calls_.at(client), client);
      check_marks(request, bytes_, mark);
      const std::array pieces = {std::as_bytes(std::span(request.value()))};
      if (reads_) sink_.store(read_through(pieces, Touch::kAll), std::memory_order_relaxed);
      reply.mutable_value()->resize(kAnswerBytes);
      stamp(bytes_of(reply), mark);
    } catch (const std::exception& error) {
      return {grpc::StatusCode::DATA_LOSS, error.what()};
    }
    return grpc::Status::OK;
  }

  const std::uint64_t bytes_;
  const bool reads_;
  // Calls of one client follow each other, also where other threads serve them.
  std::array<std::atomic<std::uint64_t>, Team::kMost> calls_{};
  std::atomic<std::uint64_t> sink_{0};
};

class Server {
 public:
  Server(const Setting& setting, bool reads)
      : service_(setting.bytes, reads),
        local_(setting.local ? "unix-abstract:ferry-many-" + std::to_string(getpid()) : "") {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort(setting.local ? local_ : "127.0.0.1:0",
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ <= 0) throw Failure("gRPC: the server does not start");
  }
  ~Server() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const {
    return local_.empty() ? "127.0.0.1:" + std::to_string(port_) : local_;
  }

 private:
  Service service_;
  const std::string local_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class Client {
 public:
  Client(const std::string& address, int me, std::uint64_t bytes)
      : id_(static_cast<std::uint64_t>(me)) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    request_.mutable_value()->resize(bytes);
    std::memcpy(bytes_of(request_).data() + kNameAt, &id_, sizeof id_);
  }

  void call() {
    const auto mark = call_mark(++calls_, id_);
    stamp(bytes_of(request_), mark);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    context.set_wait_for_ready(true);
    BytesValue reply;
    const auto status =
        grpc::internal::BlockingUnaryCall(channel_.get(), method_, &context, request_, &reply);
    if (!status.ok()) throw Failure("gRPC: the call failed: " + status.error_message());
    check_marks(reply, kAnswerBytes, mark);
  }

 private:
  const std::uint64_t id_;
  std::shared_ptr<grpc::Channel> channel_;
  const grpc::internal::RpcMethod method_{kMethod, grpc::internal::RpcMethod::NORMAL_RPC};
  BytesValue request_;
  std::uint64_t calls_ = 0;
};

void take_part_in_calls(Team& team, int me, const Setting& setting) {
  if (me == 0) {
    Server server(setting, false);
    team.set_endpoint(0, server.address());
    team.meet();
    // The clients have all made a call.
    team.meet();
    team.report(0, static_cast<double>(now_ns()));
    team.meet();
    team.meet();
    return;
  }
  team.meet();
  Client client(team.endpoint(0), me, setting.bytes);
  client.call();
  team.meet();
  team.meet();
  // The same for all clients, whenever each of them gets a core.
  const auto begin = team.reported(0) + setting.seconds * kWarmShare * 1e9;
  const auto count = calls_within(begin, begin + setting.seconds * 1e9, [&] { client.call(); });
  team.report(static_cast<std::size_t>(me), count / setting.seconds);
  team.meet();
}

double measure_calls(const Setting& setting) {
  Team team(setting.clients + 1);
  team.start([&](Team& all, int me) { take_part_in_calls(all, me, setting); });
  team.finish();
  double calls = 0;
  for (int me = 1; me <= setting.clients; ++me)
    calls += team.reported(static_cast<std::size_t>(me));
  return calls;
}

// To all others at once, each from a thread of its own.
void play(std::vector<std::unique_ptr<Client>>& others, std::uint64_t rounds) {
  std::exception_ptr failed;
  std::mutex lock;
  std::vector<std::jthread> threads;
  for (auto& other : others) {
    threads.emplace_back([&] {
      try {
        for (auto left = rounds; left > 0; --left) other->call();
      } catch (...) {
        const std::lock_guard guard(lock);
        failed = std::current_exception();
      }
    });
  }
  threads.clear();
  if (failed) std::rethrow_exception(failed);
}

// Nanoseconds of a round.
double timed_rounds(Team& team, std::vector<std::unique_ptr<Client>>& others,
                    std::uint64_t rounds) {
  team.meet();
  const auto start = now_ns();
  play(others, rounds);
  team.meet();
  return static_cast<double>(now_ns() - start) / static_cast<double>(rounds);
}

void take_part_in_mesh(Team& team, int me, const Setting& setting) {
  Server server(setting, true);
  team.set_endpoint(me, server.address());
  team.meet();
  std::vector<std::unique_ptr<Client>> others;
  for (int to = 0; to < kNodes; ++to)
    if (to != me) others.push_back(std::make_unique<Client>(team.endpoint(to), me, setting.bytes));
  play(others, kTrialRounds);
  const auto trial = timed_rounds(team, others, kTrialRounds);
  // The first process says how many rounds fit into the time.
  if (me == 0) team.report(0, std::max(2.0, setting.seconds * 1e9 / trial));
  team.meet();
  const auto ns = timed_rounds(team, others, static_cast<std::uint64_t>(team.reported(0)));
  if (me == 0) team.report(1, kNodes * (kNodes - 1) * static_cast<double>(setting.bytes) / ns);
  team.meet();
}

double measure_mesh(const Setting& setting) {
  Team team(kNodes);
  team.start([&](Team& all, int me) { take_part_in_mesh(all, me, setting); });
  team.finish();
  return team.reported(1);
}

// Keeps freed memory, so that a large message does not fault its pages in anew each time.
void tune_heap() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

double number_after(int argc, char** argv, const std::string& name, double usual) {
  for (int i = 1; i + 1 < argc; ++i)
    if (name == argv[i]) return std::stod(argv[i + 1]);
  return usual;
}

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  const bool mesh = limits::option(argc, argv, "--pattern", {"server", "mesh"}) == "mesh";
  try {
    limits::Setting setting;
    setting.clients = std::clamp(static_cast<int>(limits::number_after(argc, argv, "--clients", 4)),
                                 1, limits::Team::kMost - 1);
    setting.bytes = static_cast<std::uint64_t>(
        std::clamp(limits::number_after(argc, argv, "--bytes", 4096), 32.0, 67108864.0));
    setting.local = limits::option(argc, argv, "--over", {"tcp", "unix"}) == "unix";
    setting.seconds = std::clamp(limits::number_after(argc, argv, "--seconds", 2), 0.01, 20.0);
    limits::tune_heap();
    std::printf("ok value=%.17g\n",
                mesh ? limits::measure_mesh(setting) : limits::measure_calls(setting));
    return 0;
  } catch (const std::exception& error) {
    std::string sentence = error.what();
    std::replace(sentence.begin(), sentence.end(), '\n', ' ');
    std::printf("error %s\n", sentence.c_str());
    return 1;
  }
}
