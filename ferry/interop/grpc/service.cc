#include <cstring>

#include "ferry/interop/grpc/service_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/tensor/descriptor.h"

namespace ferry::interop {
namespace {

constexpr std::size_t kKeyBytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);

// What a slice over a tensor's memory keeps: the tensor, and where to say that it is through.
struct Lent {
  tensor::Tensor tensor;
  std::shared_ptr<std::atomic<bool>> released;
};

}  // namespace

grpc::ByteBuffer request_for(GrpcKey key) {
  std::array<char, kKeyBytes> bytes;
  std::memcpy(bytes.data(), &key.crossing, sizeof key.crossing);
  std::memcpy(bytes.data() + sizeof key.crossing, &key.step, sizeof key.step);
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

Result<GrpcKey> key_in(const grpc::ByteBuffer& request) {
  grpc::Slice slice;
  if (!request.DumpToSingleSlice(&slice).ok() || slice.size() != kKeyBytes)
    return fail(Code::kInvalidArgument, "a request for a tensor has {} bytes", slice.size());
  GrpcKey key;
  std::memcpy(&key.crossing, slice.begin(), sizeof key.crossing);
  std::memcpy(&key.step, slice.begin() + sizeof key.crossing, sizeof key.step);
  return key;
}

grpc::ByteBuffer response_with(const tensor::Tensor& tensor,
                               std::shared_ptr<std::atomic<bool>> released) {
  const auto descriptor = tensor::to_wire(tensor.spec());
  auto* lent = new Lent{tensor, std::move(released)};
  const std::array slices = {grpc::Slice(descriptor.data(), descriptor.size()),
                             grpc::Slice(
                                 tensor.data(), tensor.bytes().size(),
                                 [](void* kept) {
                                   const std::unique_ptr<Lent> over(static_cast<Lent*>(kept));
                                   over->tensor = {};
                                   over->released->store(true, std::memory_order_release);
                                 },
                                 lent)};
  return {slices.data(), slices.size()};
}

void GrpcBell::ring() {
  // Whoever looks holds the mutex: it has looked before, or sees what has happened.
  { const std::lock_guard hold(mutex_); }
  rung_.notify_all();
}

bool GrpcBell::wait_until(InlineFunction<bool()> ready, Deadline deadline) {
  std::unique_lock hold(mutex_);
  while (!ready()) {
    if (deadline.expired()) return false;
    rung_.wait_for(hold, std::min<Nanos>(deadline.left(), std::chrono::seconds(1)));
  }
  return true;
}

void GrpcShelf::ask(GrpcKey key, Respond respond) {
  grpc::ByteBuffer response;
  {
    const std::lock_guard hold(mutex_);
    const auto found = there_.find(key);
    if (found == there_.end()) {
      asked_[key] = std::move(respond);
      return;
    }
    response.Swap(&found->second);
    there_.erase(found);
  }
  respond(response);
}

void GrpcShelf::put(GrpcKey key, const tensor::Tensor& tensor,
                    std::shared_ptr<std::atomic<bool>> released) {
  auto response = response_with(tensor, std::move(released));
  Respond respond;
  {
    const std::lock_guard hold(mutex_);
    const auto found = asked_.find(key);
    if (found == asked_.end()) {
      there_[key] = response;
      return;
    }
    respond = std::move(found->second);
    asked_.erase(found);
  }
  respond(response);
}

// One request, from the wait for it to its answer.
class GrpcService::Call final : GrpcTag {
 public:
  explicit Call(GrpcService& service) : service_(service), stream_(&context_) {
    service_.service_.RequestCall(&context_, &stream_, service_.queue_.get(), service_.queue_.get(),
                                  static_cast<GrpcTag*>(this));
  }

  void proceed(bool ok) override {
    if (!ok || state_ == State::kAnswered) {
      service_.bell_.ring();  // the tensor's memory may be free now
      delete this;
    } else if (state_ == State::kWaits) {
      new Call(service_);
      state_ = State::kReads;
      stream_.Read(&request_, static_cast<GrpcTag*>(this));
    } else {
      answer();
    }
  }

 private:
  enum class State { kWaits, kReads, kAnswered };

  void answer() {
    state_ = State::kAnswered;
    const auto key = key_in(request_);
    if (!key) {
      stream_.Finish({grpc::StatusCode::INVALID_ARGUMENT, key.error().message()},
                     static_cast<GrpcTag*>(this));
      return;
    }
    service_.shelf_.ask(*key, [this](const grpc::ByteBuffer& response) {
      stream_.WriteAndFinish(response, {}, grpc::Status::OK, static_cast<GrpcTag*>(this));
    });
  }

  GrpcService& service_;
  State state_ = State::kWaits;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer request_;
};

Result<std::unique_ptr<GrpcService>> GrpcService::start(const std::string& listen, bool ours) {
  auto made = std::unique_ptr<GrpcService>(new GrpcService);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(kEnableArgument, ours ? 1 : 0);
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&made->service_);
  made->queue_ = builder.AddCompletionQueue();
  made->server_ = builder.BuildAndStart();
  if (made->server_ == nullptr || port <= 0)
    return fail(Code::kUnavailable, "gRPC cannot listen at {}: is the port taken?", listen);
  made->endpoint_ = fmt::format("{}:{}", listen.substr(0, listen.rfind(':')), port);
  made->thread_ = std::thread([service = made.get()] { service->serve(); });
  return made;
}

void GrpcService::serve() {
  new Call(*this);
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<GrpcTag*>(tag)->proceed(ok);
}

GrpcService::~GrpcService() {
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

}  // namespace ferry::interop
