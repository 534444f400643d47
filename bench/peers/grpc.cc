// Peer: gRPC over TCP loopback or, with --over unix, a local socket. Raw slices point at the
// sender's memory and are read where gRPC received them; protobuf bytes go through the message's
// string, as generated stubs do it.
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "bench/limits/args.h"
#include "bench/limits/round.h"

namespace limits {
namespace {

using google::protobuf::BytesValue;
using Traits = grpc::SerializationTraits<BytesValue>;

constexpr const char* kMethod = "/ferry.Pair/Give";

auto in_a_minute() { return std::chrono::system_clock::now() + std::chrono::minutes(1); }

void require(bool ok, const char* what) {
  if (!ok) throw Failure(std::string("gRPC: ") + what);
}

enum Step : std::size_t { kCalled, kRead, kFinished, kSteps };

// Events of a completion queue by name. They come in any order; each is waited for in turn.
class Events {
 public:
  static void* tag(Step step) { return reinterpret_cast<void*>(step); }
  grpc::CompletionQueue& queue() { return *queue_; }
  void set_queue(grpc::CompletionQueue* queue) { queue_ = queue; }

  void wait_for(Step step) {
    while (!seen_[step]) {
      void* tag = nullptr;
      bool ok = false;
      const auto got = queue_->AsyncNext(&tag, &ok, in_a_minute());
      require(got != grpc::CompletionQueue::TIMEOUT, "nothing came for 60 s");
      require(got == grpc::CompletionQueue::GOT_EVENT && ok, "the call was cut off");
      seen_[reinterpret_cast<std::size_t>(tag)] = true;
    }
    seen_[step] = false;
  }

 private:
  grpc::CompletionQueue* queue_ = nullptr;
  std::array<bool, kSteps> seen_{};
};

// Where the taker of a pair listens; `port` is its process id on a local socket.
std::string address_of(bool local, int port) {
  const auto number = std::to_string(port);
  return local ? "unix-abstract:ferry-peer-grpc-" + number : "127.0.0.1:" + number;
}

class Client {
 public:
  explicit Client(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    events_.set_queue(&queue_);
  }

  // Sends, and returns the reply.
  grpc::ByteBuffer call(const grpc::ByteBuffer& request) {
    grpc::ClientContext context;
    context.set_deadline(in_a_minute());
    auto reader = stub_->PrepareUnaryCall(&context, kMethod, request, &queue_);
    grpc::ByteBuffer reply;
    grpc::Status status;
    reader->StartCall();
    reader->Finish(&reply, &status, Events::tag(kFinished));
    events_.wait_for(kFinished);
    if (!status.ok()) throw Failure("gRPC: the call failed: " + status.error_message());
    return reply;
  }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  Events events_;
};

class Server {
 public:
  explicit Server(bool local) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    const int name = local ? getpid() : 0;
    builder.AddListeningPort(address_of(local, name), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    require(server_ != nullptr && port_ > 0, "the server does not start");
    if (local) port_ = name;
    events_.set_queue(queue_.get());
    expect_call();
  }
  ~Server() {
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
  }

  int port() const { return port_; }

  grpc::ByteBuffer& take() {
    events_.wait_for(kCalled);
    now_ = std::move(next_);
    expect_call();
    now_->stream.Read(&now_->request, Events::tag(kRead));
    events_.wait_for(kRead);
    return now_->request;
  }
  void answer(const grpc::ByteBuffer& reply) {
    now_->stream.WriteAndFinish(reply, grpc::WriteOptions(), grpc::Status::OK,
                                Events::tag(kFinished));
    events_.wait_for(kFinished);
  }
  // Forgets the last request.
  void drop() {
    if (now_) now_->request.Clear();
  }

 private:
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    grpc::ByteBuffer request;
  };

  void expect_call() {
    next_ = std::make_unique<Call>();
    service_.RequestCall(&next_->context, &next_->stream, queue_.get(), queue_.get(),
                         Events::tag(kCalled));
  }

  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Events events_;
  std::unique_ptr<Call> now_;
  std::unique_ptr<Call> next_;
};

grpc::ByteBuffer small_message(std::uint32_t round) {
  grpc::Slice slice(&round, sizeof round);
  return grpc::ByteBuffer(&slice, 1);
}

class GrpcPair : public Pair {
 public:
  GrpcPair(Link& link, bool protobuf, bool local) : link_(link), protobuf_(protobuf) {
    const bool taker = link.side() == Side::kTaker;
    int port = 0;
    if (taker) {
      server_ = std::make_unique<Server>(local);
      port = server_->port();
      std::memcpy(link.blackboard().data(), &port, sizeof port);
    }
    link.meet();
    std::memcpy(&port, link.blackboard().data(), sizeof port);
    if (!taker) client_ = std::make_unique<Client>(address_of(local, port));
    link.meet();
  }

  void open(std::uint64_t bytes) override {
    if (link_.side() == Side::kTaker) return;
    if (protobuf_) {
      message_.mutable_value()->resize(bytes);
    } else {
      memory_ = Memory(bytes);
    }
  }
  void close() override {
    memory_ = Memory();
    message_ = BytesValue();
    slices_.clear();
    if (server_) server_->drop();
    malloc_trim(0);
  }
  std::span<std::byte> source() override {
    if (!protobuf_) return memory_.bytes();
    auto& text = *message_.mutable_value();
    return std::as_writable_bytes(std::span(text.data(), text.size()));
  }

  void give(std::uint32_t round) override {
    grpc::ByteBuffer request;
    if (protobuf_) {
      bool own = false;
      require(Traits::Serialize(message_, &request, &own).ok(), "cannot serialize");
    } else {
      const auto bytes = memory_.bytes();
      grpc::Slice slice(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
      request = grpc::ByteBuffer(&slice, 1);
    }
    auto reply = client_->call(request);
    grpc::Slice slice;
    require(reply.DumpToSingleSlice(&slice).ok() && slice.size() == sizeof round, "a bad answer");
    require(std::memcmp(slice.begin(), &round, sizeof round) == 0, "the answer is another round's");
  }

  Pieces take(std::uint32_t) override {
    auto& request = server_->take();
    pieces_.clear();
    if (protobuf_) {
      // A message of its own for each call, as a generated service has it.
      message_ = BytesValue();
      require(Traits::Deserialize(&request, &message_).ok(), "cannot parse the message");
      pieces_.push_back(std::as_bytes(std::span(message_.value())));
    } else {
      slices_.clear();
      require(request.Dump(&slices_).ok(), "cannot get at the slices");
      for (const auto& slice : slices_)
        pieces_.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
    }
    return pieces_;
  }
  void answer(std::uint32_t round) override { server_->answer(small_message(round)); }

 private:
  Link& link_;
  bool protobuf_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
  Memory memory_;
  BytesValue message_;
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> pieces_;
};

// Keeps freed memory, so that a large message does not fault its pages in anew each time.
void tune_heap() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  const bool protobuf = limits::option(argc, argv, "--send", {"slices", "bytes"}) == "bytes";
  const bool tuned = limits::option(argc, argv, "--heap", {"plain", "tuned"}) == "tuned";
  if (tuned) limits::tune_heap();
  const bool local = limits::option(argc, argv, "--over", {"tcp", "unix"}) == "unix";
  const std::string version =
      "gRPC " + grpc::Version() + (local ? " over a local socket, " : " over TCP loopback, ");
  return limits::serve({.name = protobuf ? "grpc-bytes" : "grpc-slices",
                        .what = version + (protobuf ? "protobuf bytes" : "raw slices"),
                        .min_bytes = 2,
                        // Both abort the process with 2 GiB and more.
                        .max_bytes = (std::uint64_t{1} << 31) - 4096,
                        .make = [protobuf, local](limits::Link& link) {
                          return std::make_unique<limits::GrpcPair>(link, protobuf, local);
                        }});
}
