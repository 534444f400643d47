#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "bench/limits/round.h"
#include "bench/rounds/need.h"
#include "bench/suites/tensor.h"
#include "ferry/cli/common/random_secret.h"
#include "ferry/ferry.h"
#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"

namespace ferry::bench {
namespace {

using transfer::Arrival;
using transfer::DynamicReceiver;
using transfer::DynamicSender;
using transfer::StaticReceiver;
using transfer::StaticSender;
using transfer::Ticket;

constexpr auto kTensorPatience = std::chrono::seconds(60);

struct TensorSetting {
  std::string provider = "shm";
  std::string protocol = "static";  // static, dynamic
  bool in_place = true;
  // Copies beside the protocol: the sender's into registered memory, the receiver's out of it.
  bool sender_copy = false;
  bool receiver_copy = false;
  std::string secret;
};

tensor::Spec spec_for(std::uint64_t bytes) {
  return {tensor::ElementType::kU8, need(tensor::Shape::of({static_cast<std::int64_t>(bytes)}))};
}

// Two connected devices; the taker's ticket goes over the blackboard.
class TensorPair : public limits::Pair {
 public:
  TensorPair(limits::Link& link, TensorSetting setting)
      : link_(link),
        setting_(std::move(setting)),
        device_(need(Device::open(options_of(setting_)))) {
    auto board = link_.blackboard();
    if (giver()) {
      link_.meet();
      channel_ = need(device_.connect(reinterpret_cast<const char*>(board.data())));
    } else {
      auto endpoint = device_.endpoint();
      std::memcpy(board.data(), endpoint.c_str(), endpoint.size() + 1);
      link_.meet();
      channel_ = need(device_.accept(Deadline::after(kTensorPatience)));
    }
    link_.meet();
  }

  void open(std::uint64_t bytes) override {
    spec_ = spec_for(bytes);
    if (giver()) {
      link_.meet();
      auto wire = link_.blackboard().first(Ticket::kWireBytes);
      open_sender(need(Ticket::from_wire(wire)));
    } else {
      auto wire = open_receiver().to_wire();
      std::memcpy(link_.blackboard().data(), wire.data(), wire.size());
      link_.meet();
    }
    bool own = giver() ? setting_.sender_copy : setting_.receiver_copy;
    if (own) own_ = limits::Memory(bytes);
    if (giver()) source_ = own ? own_.bytes() : output().bytes();
    limits::fault_in(own ? own_.bytes() : source_);
    link_.meet();
  }

  void close() override {
    link_.meet();
    arrival_ = {};
    close_ends();
    own_ = limits::Memory();
    source_ = {};
    link_.meet();
  }

  std::span<std::byte> source() override { return source_; }

  void give(std::uint32_t) override {
    auto made = output();
    if (setting_.sender_copy) {
      std::memcpy(made.bytes().data(), own_.bytes().data(), own_.bytes().size());
    } else if (made.data() != source_.data()) {
      throw limits::Failure("the memory to produce in moved between two rounds");
    }
    send(made);
  }

  limits::Pieces take(std::uint32_t) override {
    arrival_ = receive();
    piece_[0] = arrival_.bytes();
    if (setting_.receiver_copy) {
      std::memcpy(own_.bytes().data(), arrival_.bytes().data(), own_.bytes().size());
      piece_[0] = own_.bytes();
    }
    return piece_;
  }

  void answer(std::uint32_t) override { need(arrival_.release()); }

 protected:
  virtual void open_sender(const Ticket& ticket) = 0;
  virtual const Ticket& open_receiver() = 0;
  virtual void close_ends() = 0;
  virtual tensor::Tensor output() = 0;
  virtual void send(const tensor::Tensor& tensor) = 0;
  virtual Arrival receive() = 0;

  static fabric::Options options_of(const TensorSetting& setting) {
    fabric::Options options;
    options.provider = setting.provider;
    options.secret = setting.secret;
    options.shm_help = false;  // one copying thread, as in the limit
    return options;
  }
  bool giver() const { return link_.side() == limits::Side::kGiver; }
  WaitMode mode() const { return sleep_ ? WaitMode::kSleep : WaitMode::kSpin; }
  // One deadline for many rounds: it costs a look at the clock.
  Deadline patience() {
    if (waits_++ % 256 == 0) deadline_ = Deadline::after(kTensorPatience);
    return deadline_;
  }

  limits::Link& link_;
  const TensorSetting setting_;
  Device device_;
  Channel channel_;
  tensor::Spec spec_;
  Arrival arrival_;

 private:
  limits::Memory own_;
  std::span<std::byte> source_;
  std::array<std::span<const std::byte>, 1> piece_;
  std::uint64_t waits_ = 0;
  Deadline deadline_;
};

// One slot: the answer is that it is free again.
class StaticPair final : public TensorPair {
 public:
  using TensorPair::TensorPair;

 private:
  void open_sender(const Ticket& ticket) override {
    sender_ = need(StaticSender::open(device_, channel_, ticket, spec_,
                                      {.in_place = setting_.in_place, .mode = WaitMode::kSpin}));
  }
  const Ticket& open_receiver() override {
    receiver_ = need(StaticReceiver::open(device_, channel_, spec_, {.slots = 1, .spins = true}));
    return receiver_->ticket();
  }
  void close_ends() override {
    sender_.reset();
    receiver_.reset();
  }
  tensor::Tensor output() override { return need(sender_->output()); }
  void send(const tensor::Tensor& tensor) override {
    auto deadline = patience();
    need(sender_->send(tensor, deadline));
    need(sender_->drain(deadline));
  }
  Arrival receive() override { return need(receiver_->receive(patience(), mode())); }

  std::optional<StaticSender> sender_;
  std::optional<StaticReceiver> receiver_;
};

class DynamicPair final : public TensorPair {
 public:
  using TensorPair::TensorPair;

 private:
  void open_sender(const Ticket& ticket) override {
    sender_ = need(DynamicSender::open(device_, channel_, ticket, kAny,
                                       {.in_place = setting_.in_place, .mode = WaitMode::kSpin}));
  }
  const Ticket& open_receiver() override {
    transfer::DynamicOptions options;
    options.slots = 1;
    options.spins = true;
    options.in_place = setting_.in_place;
    // As the pad is after a few tensors of one size.
    options.pad = std::min(need(spec_.bytes()), options.most_pad);
    receiver_ = need(DynamicReceiver::open(device_, channel_, kAny, options));
    return receiver_->ticket();
  }
  void close_ends() override {
    sender_.reset();
    receiver_.reset();
  }
  tensor::Tensor output() override { return need(sender_->output(spec_)); }
  void send(const tensor::Tensor& tensor) override {
    auto deadline = patience();
    need(sender_->send(tensor, deadline));
    need(sender_->drain(deadline));
  }
  Arrival receive() override { return need(receiver_->receive(patience(), mode())); }

  const tensor::Spec kAny{tensor::ElementType::kU8, need(tensor::Shape::of({-1}))};
  std::optional<DynamicSender> sender_;
  std::optional<DynamicReceiver> receiver_;
};

int serve_tensor(TensorSetting setting) {
  setting.secret = need(cli::random_secret());
  limits::Program program;
  program.name = fmt::format("ferry-{}-{}", setting.provider, setting.protocol);
  program.what = "this library";
  program.make = [setting](limits::Link& link) -> std::unique_ptr<limits::Pair> {
    if (setting.protocol == "static") return std::make_unique<StaticPair>(link, setting);
    return std::make_unique<DynamicPair>(link, setting);
  };
  return limits::serve(program);
}

}  // namespace

void add_bench_tensor_round(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("tensor-round", "One pair of processes for `bench tensor`");
  command->group("");  // not in --help: `ferry bench tensor` starts it
  auto setting = std::make_shared<TensorSetting>();
  command->add_option("--provider", setting->provider);
  command->add_option("--protocol", setting->protocol)->check(CLI::IsMember({"static", "dynamic"}));
  command->add_option("--in-place", setting->in_place);
  command->add_option("--sender-copy", setting->sender_copy);
  command->add_option("--receiver-copy", setting->receiver_copy);
  command->callback([setting, &exit_code] { exit_code = serve_tensor(*setting); });
}

}  // namespace ferry::bench
