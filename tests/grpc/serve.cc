#include "tests/grpc/serve.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ferry/interop/grpc_tensor/tensor_service.h"
#include "tests/grpc/certificate.h"
#include "tests/grpc/echo.grpc.pb.h"
#include "tests/grpc/tensors.h"

namespace {

using ferry::test::Words;

// What a client asked for: whether to go on, and the answer.
grpc::Status answer(const Words& asked, Words* said) {
  if (asked.sleep_ms() > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(asked.sleep_ms()));
  if (asked.fail_with() != 0)
    return {static_cast<grpc::StatusCode>(asked.fail_with()), "as asked for"};
  said->set_number(asked.number());
  if (asked.answer_bytes() > 0) {
    said->mutable_payload()->assign(static_cast<std::size_t>(asked.answer_bytes()),
                                    static_cast<char>(asked.number()));
  } else {
    said->set_payload(asked.payload());
  }
  return grpc::Status::OK;
}

class Sync final : public ferry::test::Echo::Service {
  grpc::Status Unary(grpc::ServerContext* context, const Words* asked, Words* said) override {
    for (const auto& [key, value] : context->client_metadata())
      if (key.starts_with("x-big"))
        context->AddTrailingMetadata(std::string(key.data(), key.size()),
                                     std::string(value.data(), value.size()));
    return answer(*asked, said);
  }
  grpc::Status Gather(grpc::ServerContext*, grpc::ServerReader<Words>* in, Words* said) override {
    Words one;
    std::int64_t bytes = 0;
    while (in->Read(&one)) bytes += static_cast<std::int64_t>(one.payload().size());
    said->set_number(bytes);
    return grpc::Status::OK;
  }
  grpc::Status Scatter(grpc::ServerContext*, const Words* asked,
                       grpc::ServerWriter<Words>* out) override {
    for (std::int64_t i = 0; i < asked->number(); ++i) {
      Words one;
      one.set_number(i);
      one.mutable_payload()->assign(static_cast<std::size_t>(asked->answer_bytes()),
                                    static_cast<char>(i));
      if (!out->Write(one)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }
  grpc::Status Talk(grpc::ServerContext*, grpc::ServerReaderWriter<Words, Words>* talk) override {
    Words one;
    while (talk->Read(&one)) {
      Words said;
      if (auto status = answer(one, &said); !status.ok()) return status;
      if (!talk->Write(said)) break;
    }
    return grpc::Status::OK;
  }
};

class Callback final : public ferry::test::EchoCallback::CallbackService {
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context, const Words* asked,
                                  Words* said) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(answer(*asked, said));
    return reactor;
  }
  grpc::ServerBidiReactor<Words, Words>* Talk(grpc::CallbackServerContext*) override {
    class Reactor final : public grpc::ServerBidiReactor<Words, Words> {
     public:
      Reactor() { StartRead(&asked_); }
      void OnReadDone(bool ok) override {
        if (!ok) return Finish(grpc::Status::OK);
        said_.Clear();
        if (auto status = answer(asked_, &said_); !status.ok()) return Finish(status);
        StartWrite(&said_);
      }
      void OnWriteDone(bool ok) override {
        if (!ok) return Finish(grpc::Status::CANCELLED);
        StartRead(&asked_);
      }
      void OnDone() override { delete this; }

     private:
      Words asked_;
      Words said_;
    };
    return new Reactor;
  }
};

// Whatever is not one of the services: bytes as they came, by the asynchronous API.
class Raw {
 public:
  Raw(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue) {
    service_->RequestCall(&context_, &stream_, queue_, queue_, this);
  }
  void proceed(bool ok) {
    if (!ok || step_ == 3) {
      delete this;
      return;
    }
    ++step_;
    if (step_ == 1) {
      new Raw(service_, queue_);
      stream_.Read(&bytes_, this);
    } else if (step_ == 2) {
      stream_.WriteAndFinish(bytes_, grpc::WriteOptions(), grpc::Status::OK, this);
      step_ = 3;
    }
  }

 private:
  grpc::AsyncGenericService* service_;
  grpc::ServerCompletionQueue* queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer bytes_;
  int step_ = 0;
};

bool has(int argc, char** argv, const char* word) {
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], word) == 0) return true;
  return false;
}

// "--argument NAME=NUMBER": an argument of the server's.
void add_argument(int argc, char** argv, grpc::ServerBuilder& builder) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--argument") != 0) continue;
    const std::string setting(argv[i + 1]);
    const auto equals = setting.find('=');
    builder.AddChannelArgument(setting.substr(0, equals),
                               std::atoi(setting.substr(equals + 1).c_str()));
  }
}

}  // namespace

int serve(int argc, char** argv) {
  Sync sync;
  Callback callback;
  grpc::AsyncGenericService generic;
  grpc::ServerBuilder builder;
  int port = 0;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (has(argc, argv, "--tls")) credentials = server_credentials(read_certificate(argv[argc - 2]));
  builder.AddListeningPort(argv[argc - 1], credentials, &port);
  builder.RegisterService(&sync);
  builder.RegisterService(&callback);
  const auto tensors = tensor_services();
  for (const auto& service : tensors) builder.RegisterService(service.get());
  builder.RegisterAsyncGenericService(&generic);
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 1 << 20);
  if (has(argc, argv, "--off")) builder.AddChannelArgument("tensorferry.enable", 0);
  add_argument(argc, argv, builder);
  if (has(argc, argv, "--tensors")) ferry::grpc::prepare_for_tensors(builder);
  auto queue = builder.AddCompletionQueue();
  auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  new Raw(&generic, queue.get());
  std::thread raw([&] {
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) static_cast<Raw*>(tag)->proceed(ok);
  });
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  // Calls under way get the time that a loaded machine takes for them.
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  queue->Shutdown();
  raw.join();
  return 0;
}
