#include "ferry/interop/grpc/rendezvous.h"

#include <cstring>
#include <optional>
#include <vector>

#include "ferry/interop/grpc/service_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/runtime/buffers.h"
#include "ferry/tensor/descriptor.h"

namespace ferry::interop {
namespace {

using graph::Crossing;

#ifdef FERRY_HAS_GRPC_ENDPOINT
// All tasks are known to have it, and are started at once: none is given up soon.
constexpr double kEndpointPatience = 10;

Status use_endpoint(const GrpcEndpoint& endpoint) {
  FERRY_TRY(plugin_status());
  set_plugin({endpoint.provider, endpoint.secret, endpoint.secret_file, kEndpointPatience});
  return {};
}
PluginTraffic endpoint_traffic() { return plugin_traffic(); }
#else
Status use_endpoint(const GrpcEndpoint&) {
  return fail(Code::kUnimplemented,
              "this program was built without the endpoint for gRPC, which needs gRPC 1.51.1");
}
PluginTraffic endpoint_traffic() { return {}; }
#endif

class GrpcSendEnd final : public runtime::SendEnd {
 public:
  GrpcSendEnd(GrpcService& service, std::uint32_t crossing)
      : service_(service), crossing_(crossing) {}

  Result<std::optional<tensor::Tensor>> output(const tensor::Spec&) override {
    return std::optional<tensor::Tensor>();
  }
  Result<bool> start(const tensor::Tensor& tensor, std::uint64_t step) override {
    released_->store(false, std::memory_order_relaxed);
    service_.shelf().put({crossing_, step}, tensor, released_);
    ++stats_.tensors;
    stats_.bytes += tensor.bytes().size();
    return true;
  }
  Result<bool> finished() override { return released_->load(std::memory_order_acquire); }
  bool may_be_ready() const override { return released_->load(std::memory_order_relaxed); }
  runtime::CrossingStats stats() const override { return stats_; }

 private:
  GrpcService& service_;
  const std::uint32_t crossing_;
  const std::shared_ptr<std::atomic<bool>> released_ = std::make_shared<std::atomic<bool>>(true);
  runtime::CrossingStats stats_;
};

// Copies what follows the first `skip` bytes.
void copy_out(const std::vector<grpc::Slice>& slices, std::size_t skip, std::span<std::byte> into) {
  for (const auto& slice : slices) {
    const auto from = std::min(skip, slice.size());
    skip -= from;
    const auto count = std::min(slice.size() - from, into.size());
    if (count > 0) std::memcpy(into.data(), slice.begin() + from, count);
    into = into.subspan(count);
  }
}

class GrpcReceiveEnd final : public runtime::ReceiveEnd, GrpcTag {
 public:
  GrpcReceiveEnd(GrpcService& service, std::shared_ptr<grpc::Channel> channel,
                 const Crossing& crossing)
      : service_(service),
        stub_(std::move(channel)),
        id_(crossing.id),
        spec_(crossing.spec),
        from_(crossing.from) {}
  // What is under way ends first.
  ~GrpcReceiveEnd() override {
    if (call_ == nullptr) return;
    call_->context.TryCancel();
    while (!done_.load(std::memory_order_acquire)) std::this_thread::yield();
  }

  Status expect(std::uint64_t step) override {
    call_ = std::make_unique<Asked>();
    done_.store(false, std::memory_order_relaxed);
    call_->context.set_wait_for_ready(false);
    call_->reader = stub_.PrepareUnaryCall(&call_->context, kGrpcMethod, request_for({id_, step}),
                                           &service_.queue());
    call_->reader->StartCall();
    call_->reader->Finish(&call_->response, &call_->status, static_cast<GrpcTag*>(this));
    return {};
  }
  Result<bool> ready(std::uint64_t) override {
    if (!done_.load(std::memory_order_acquire)) return false;
    if (call_->status.ok()) return true;
    return fail(Code::kUnavailable, "{}: {}", from_, call_->status.error_message());
  }
  bool may_be_ready(std::uint64_t) const override { return done_.load(std::memory_order_relaxed); }

  Result<tensor::Tensor> take() override {
    std::vector<grpc::Slice> slices;
    if (!call_->response.Dump(&slices).ok() || call_->response.Length() < tensor::kDescriptorBytes)
      return fail(Code::kDataLoss, "{}: an answer without a tensor", from_);
    tensor::DescriptorBytes descriptor;
    copy_out(slices, 0, descriptor);
    const auto spec = FERRY_TRY(tensor::spec_from_wire(descriptor));
    const auto bytes = FERRY_TRY(spec.bytes());
    if (!spec_.admits(spec) || bytes + descriptor.size() != call_->response.Length())
      return fail(Code::kDataLoss, "{} has sent {} where {} is expected", from_, spec.to_string(),
                  spec_.to_string());
    auto tensor = FERRY_TRY(buffers_.take(spec));
    copy_out(slices, descriptor.size(), tensor.bytes());
    ++copies_;
    call_.reset();
    buffers_.give(tensor);
    return tensor;
  }
  runtime::CrossingStats stats() const override {
    runtime::CrossingStats stats;
    stats.copies = copies_;
    return stats;
  }

 private:
  struct Asked {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
  };

  void proceed(bool) override {
    done_.store(true, std::memory_order_release);
    service_.bell().ring();
  }

  GrpcService& service_;
  grpc::GenericStub stub_;
  const std::uint32_t id_;
  const tensor::Spec spec_;
  const std::string from_;
  std::unique_ptr<Asked> call_;
  std::atomic<bool> done_{false};
  runtime::Buffers buffers_{runtime::make_ordinary_block};
  std::uint64_t copies_ = 0;
};

}  // namespace

class GrpcRendezvous::Core {
 public:
  Core(std::unique_ptr<GrpcService> started, bool over_ours)
      : service(std::move(started)), ours(over_ours) {}

  std::shared_ptr<grpc::Channel> channel_to(const std::string& task) {
    auto& channel = channels[task];
    if (channel == nullptr) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(-1);
      arguments.SetMaxSendMessageSize(-1);
      arguments.SetInt(kEnableArgument, ours ? 1 : 0);
      channel = grpc::CreateCustomChannel(endpoints.at(task), grpc::InsecureChannelCredentials(),
                                          arguments);
    }
    return channel;
  }

  std::unique_ptr<GrpcService> service;
  const bool ours;
  std::map<std::string, std::string> endpoints;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  std::vector<std::unique_ptr<GrpcSendEnd>> sends;        // by crossing
  std::vector<std::unique_ptr<GrpcReceiveEnd>> receives;  // by crossing
};

Result<std::unique_ptr<GrpcRendezvous>> GrpcRendezvous::listen(
    const GrpcRendezvousOptions& options) {
  const bool ours = options.endpoint.has_value();
  if (ours) FERRY_TRY(use_endpoint(*options.endpoint));
  auto core = std::make_unique<Core>(FERRY_TRY(GrpcService::start(options.listen, ours)), ours);
  return std::unique_ptr<GrpcRendezvous>(new GrpcRendezvous(std::move(core)));
}

GrpcRendezvous::GrpcRendezvous(std::unique_ptr<Core> core) : core_(std::move(core)) {}
GrpcRendezvous::~GrpcRendezvous() { core_->receives.clear(); }

std::string GrpcRendezvous::endpoint() const { return core_->service->endpoint(); }
void GrpcRendezvous::know(std::map<std::string, std::string> endpoints) {
  core_->endpoints = std::move(endpoints);
}

Status GrpcRendezvous::open(const graph::Partition& partition, const std::string& task,
                            Deadline deadline) {
  core_->sends.resize(partition.crossings.size());
  core_->receives.resize(partition.crossings.size());
  for (const auto& crossing : partition.crossings) {
    const auto from = graph::process_of(crossing.from);
    if (from == task)
      core_->sends[crossing.id] = std::make_unique<GrpcSendEnd>(*core_->service, crossing.id);
    if (graph::process_of(crossing.to) != task) continue;
    if (core_->endpoints.count(from) == 0)
      return fail(Code::kNotFound, "the cluster has no task {}", from);
    core_->receives[crossing.id] =
        std::make_unique<GrpcReceiveEnd>(*core_->service, core_->channel_to(from), crossing);
  }
  const auto until = std::chrono::system_clock::now() + deadline.left();
  for (const auto& [name, channel] : core_->channels)
    if (!channel->WaitForConnected(until))
      return fail(Code::kDeadlineExceeded, "{} does not get through to {} at {} by gRPC", task,
                  name, core_->endpoints.at(name));
  if (core_->ours && endpoint_traffic().dialled < core_->channels.size())
    return fail(Code::kUnavailable,
                "{} reaches some tasks by TCP, not by our endpoint: FERRY_LOG=info says why", task);
  return {};
}

runtime::SendEnd* GrpcRendezvous::send_end(std::uint32_t crossing) {
  return core_->sends[crossing].get();
}
runtime::ReceiveEnd* GrpcRendezvous::receive_end(std::uint32_t crossing) {
  return core_->receives[crossing].get();
}

bool GrpcRendezvous::wait_until(InlineFunction<bool()> ready, Deadline deadline) {
  return core_->service->bell().wait_until(std::move(ready), deadline);
}
void GrpcRendezvous::wake() { core_->service->bell().ring(); }

runtime::CrossingStats GrpcRendezvous::stats() const {
  runtime::CrossingStats all;
  for (const auto& end : core_->sends)
    if (end) all += end->stats();
  for (const auto& end : core_->receives)
    if (end) all += end->stats();
  if (core_->ours) all.endpoint_bytes = endpoint_traffic().sent_bytes;
  return all;
}

}  // namespace ferry::interop
