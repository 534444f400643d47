#include <array>
#include <cstring>

#include "ferry/interop/kvstore/backend_internal.h"

// A store in this process.

namespace ferry::interop {
namespace {

struct LocalValue {
  std::size_t row_bytes = 0;
  std::vector<float> weights;
  std::array<std::vector<float>, 2> state;
  std::uint64_t time = 0;
};

class LocalBackend final : public KVBackend {
 public:
  std::uint32_t rank() const override { return 0; }
  std::uint32_t num_workers() const override { return 1; }

  Status init(std::span<const std::string> names, std::span<const tensor::Tensor> values,
              Deadline deadline) override {
    (void)names;
    (void)deadline;
    for (const auto& value : values) {
      auto& made = values_.emplace_back();
      const auto all = value.elements<float>();
      made.weights.assign(all.begin(), all.end());
      const auto& shape = value.shape();
      if (shape.rank() > 0 && shape.dim(0) > 0)
        made.row_bytes = value.bytes().size() / static_cast<std::size_t>(shape.dim(0));
      begin_state(made);
    }
    return {};
  }

  Status set_optimizer(const ps::Update& optimizer, Deadline deadline) override {
    (void)deadline;
    if (optimizer.kind == ps::UpdateKind::kFunction)
      return fail(Code::kInvalidArgument,
                  "{} is a server's; a local store takes sum, sgd, momentum or adam",
                  optimizer.to_string());
    update_ = optimizer;
    for (auto& value : values_) begin_state(value);
    return {};
  }

  Status push(std::size_t key, std::span<const tensor::Tensor> values, Deadline deadline) override {
    (void)deadline;
    auto& to = values_[key];
    const auto sources = floats_of(values);
    ps::apply_update(update_, nullptr,
                     {.weights = to.weights.data(),
                      .updated = to.weights.data(),
                      .gradient = {sources},
                      .state = {to.state[0].data(), to.state[1].data()},
                      .time = ++to.time,
                      .count = to.weights.size()});
    return {};
  }

  Status pull(std::size_t key, std::span<const tensor::Tensor> outs, Deadline deadline) override {
    (void)deadline;
    const auto from = std::as_bytes(std::span(values_[key].weights));
    for (const auto& out : outs) std::copy(from.begin(), from.end(), out.bytes().begin());
    return {};
  }

  Status pushpull(std::size_t key, std::span<const tensor::Tensor> values,
                  std::span<const tensor::Tensor> outs, Deadline deadline) override {
    FERRY_TRY(push(key, values, deadline));
    return pull(key, outs, deadline);
  }

  Status pull_rows(std::size_t key, std::span<const std::uint64_t> rows, std::span<std::byte> out,
                   Deadline deadline) override {
    (void)deadline;
    const auto& from = values_[key];
    const auto all = std::as_bytes(std::span(from.weights));
    for (std::size_t each = 0; each < rows.size(); ++each)
      std::memcpy(out.data() + each * from.row_bytes, all.data() + rows[each] * from.row_bytes,
                  from.row_bytes);
    return {};
  }

  Status barrier(Deadline deadline) override {
    (void)deadline;
    return {};
  }
  Status close(Deadline deadline) override {
    (void)deadline;
    return {};
  }

 private:
  void begin_state(LocalValue& value) const {
    value.time = 0;
    for (std::uint32_t each = 0; each < update_.states(); ++each)
      value.state[each].assign(value.weights.size(), 0.0F);
  }

  ps::Update update_{ps::UpdateKind::kAssign};
  std::vector<LocalValue> values_;
};

}  // namespace

std::unique_ptr<KVBackend> make_local_backend() { return std::make_unique<LocalBackend>(); }

}  // namespace ferry::interop
