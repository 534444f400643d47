#include <algorithm>
#include <array>

#include "ferry/models/onnx/call.h"

// Recurrent layers, one direction, as a cell for each step of the sequence. ONNX's weights are
// W [1, gates * H, I], R [1, gates * H, H] and B [1, 2 * gates * H], with other orders of the
// gates.

namespace ferry::models::onnx {
namespace {

using graph::Expr;
using tensor::Tensor;

// For each gate of ours, which of ONNX's it is: input, output, forget, candidate there; update,
// reset, candidate.
constexpr std::array<std::int64_t, 4> kLstmOrder = {0, 2, 3, 1};
constexpr std::array<std::int64_t, 3> kGruOrder = {1, 0, 2};

struct Layer {
  Value w;
  Value r;
  Value b;  // none if the file has none
  std::span<const std::int64_t> gates;
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;  // I
  std::int64_t units = 0;   // H
  Expr x;                   // [T, N, I]
};

Status check_kind(const Call& call) {
  if (call.attribute("direction", "forward") != "forward")
    return fail(Code::kUnimplemented, "only the direction 'forward' is there");
  if (call.attribute("layout", std::int64_t{0}) != 0)
    return fail(Code::kUnimplemented, "only layout 0 is there");
  for (const auto* name : {"activations", "clip"})
    if (call.node().find(name) != nullptr)
      return fail(Code::kUnimplemented, "'{}' is not there", name);
  if (call.attribute("input_forget", std::int64_t{0}) != 0)
    return fail(Code::kUnimplemented, "'input_forget' is not there");
  if (call.has(4)) return fail(Code::kUnimplemented, "sequences of several lengths are not there");
  if (call.has(7)) return fail(Code::kUnimplemented, "peepholes are not there");
  return {};
}

bool is_known(const Value& value, const Dims& dims) {
  return !value.expr && value.known.type() == tensor::ElementType::kF32 && value.dims() == dims;
}

Result<Layer> layer_of(Call& call, std::span<const std::int64_t> gates) {
  FERRY_TRY(check_kind(call));
  Layer layer;
  layer.w = FERRY_TRY(call.input(1));
  layer.r = FERRY_TRY(call.input(2));
  layer.gates = gates;
  layer.x = FERRY_TRY(call.plain(0));
  const auto dims = dims_of(layer.x.spec().shape);
  if (dims.size() != 3 || dims[0] < 1)
    return fail(Code::kInvalidArgument, "its input is {}, not a sequence [T, N, I]",
                layer.x.spec().to_string());
  layer.steps = dims[0];
  layer.batch = dims[1];
  layer.inputs = dims[2];
  const auto recurrent = layer.r.dims();
  layer.units = recurrent.empty() ? 0 : recurrent.back();
  const auto rows = product_of(Dims{static_cast<std::int64_t>(gates.size()), layer.units});
  bool fit = layer.units > 0 && is_known(layer.w, {1, rows, layer.inputs}) &&
             is_known(layer.r, {1, rows, layer.units});
  if (call.has(3)) {
    layer.b = FERRY_TRY(call.input(3));
    fit = fit && is_known(layer.b, {1, 2 * rows});
  }
  if (!fit) return fail(Code::kInvalidArgument, "its weights are not constants that fit together");
  return layer;
}

// [I + H, gates * H]: first the rows of W, then those of R.
Result<Tensor> joined_weights(const Layer& layer) {
  const auto columns = static_cast<std::int64_t>(layer.gates.size()) * layer.units;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>((layer.inputs + layer.units) * columns));
  for (const auto& [part, rows] : {std::pair{&layer.w, layer.inputs}, {&layer.r, layer.units}}) {
    const auto from = part->known.elements<float>();
    for (std::int64_t row = 0; row < rows; ++row)
      for (const auto gate : layer.gates)
        for (std::int64_t unit = 0; unit < layer.units; ++unit)
          values.push_back(
              from[static_cast<std::size_t>((gate * layer.units + unit) * rows + row)]);
  }
  return tensor_of_reals({layer.inputs + layer.units, columns}, values);
}

// Both of ONNX's biases are only ever added.
Result<Tensor> joined_bias(const Layer& layer) {
  const auto columns = static_cast<std::int64_t>(layer.gates.size()) * layer.units;
  const auto from = layer.b.known.elements<float>();
  std::vector<float> values;
  for (const auto gate : layer.gates)
    for (std::int64_t unit = 0; unit < layer.units; ++unit) {
      const auto at = gate * layer.units + unit;
      values.push_back(from[static_cast<std::size_t>(at)] +
                       from[static_cast<std::size_t>(at + columns)]);
    }
  return tensor_of_reals({columns}, values);
}

Result<Expr> zeros(Call& call, const Dims& dims) {
  const std::vector<float> values(static_cast<std::size_t>(product_of(dims)));
  const auto made = FERRY_TRY(tensor_of_reals(dims, values));
  return call.builder().constant(made);
}

Result<Expr> bias_of(Call& call, const Layer& layer) {
  const auto columns = static_cast<std::int64_t>(layer.gates.size()) * layer.units;
  if (layer.b.name.empty()) return zeros(call, {columns});
  return call.weight(layer.b.name, {columns}, fmt::format("bias of {} gates", layer.gates.size()),
                     [&] { return joined_bias(layer); });
}

Result<Expr> weights_of(Call& call, const Layer& layer) {
  const auto columns = static_cast<std::int64_t>(layer.gates.size()) * layer.units;
  return call.weight(layer.w.name, {layer.inputs + layer.units, columns},
                     fmt::format("with '{}' for {} gates", layer.r.name, layer.gates.size()),
                     [&] { return joined_weights(layer); });
}

// The state before the first step, [N, H]. Constants are for the batch of the file: only zeros are
// the same for any.
Result<Expr> first_state(Call& call, const Layer& layer, std::size_t input) {
  const Dims dims = {layer.batch, layer.units};
  if (!call.has(input)) return zeros(call, dims);
  const auto value = FERRY_TRY(call.input(input));
  if (value.expr) return reshape(FERRY_TRY(call.plain_of(value)), dims);
  if (value.known.type() != tensor::ElementType::kF32)
    return fail(Code::kInvalidArgument, "'{}' is not made of real numbers", value.name);
  const auto elements = value.known.elements<float>();
  if (std::any_of(elements.begin(), elements.end(), [](float each) { return each != 0; }))
    return fail(Code::kUnimplemented, "it begins with constants ('{}') other than zero",
                value.name);
  return zeros(call, dims);
}

// Y [T, 1, N, H], and Y_h [1, N, H], of the states [T, N, H].
Value outputs_of(Call& call, const Layer& layer, Expr states) {
  if (call.wanted(1))
    call.give(1, plain_value(slice(states, {layer.steps - 1, 0, 0}, {1, -1, -1})));
  return plain_value(reshape(states, {layer.steps, 1, layer.batch, layer.units}));
}

Result<Value> lstm_node(Call& call) {
  if (call.wanted(2))
    return fail(Code::kUnimplemented, "no gradient would flow through its output '{}'",
                call.node().outputs[2]);
  const auto layer = FERRY_TRY(layer_of(call, kLstmOrder));
  const auto w = FERRY_TRY(weights_of(call, layer));
  const auto b = FERRY_TRY(bias_of(call, layer));
  const graph::LstmState first{FERRY_TRY(first_state(call, layer, 5)),
                               FERRY_TRY(first_state(call, layer, 6))};
  return outputs_of(call, layer, lstm(layer.x, first, w, b));
}

// PyTorch's GRU resets the product with the state, ours the state: it is written out, step by step.
Result<Expr> late_gru(Call& call, const Layer& layer) {
  constexpr std::int64_t kMostSteps = 512;
  if (layer.steps > kMostSteps)
    return fail(Code::kUnimplemented, "sequences of more than {} steps with 'linear_before_reset'",
                kMostSteps);
  const auto h = layer.units;
  const auto columns = 3 * h;
  const auto wx =
      FERRY_TRY(call.weight(layer.w, {{columns, layer.inputs}, {1, 0}, {layer.inputs, columns}}));
  const auto wh = FERRY_TRY(call.weight(layer.r, {{columns, h}, {1, 0}, {h, columns}}));
  const auto bias =
      FERRY_TRY(layer.b.name.empty() ? zeros(call, {2 * columns})
                                     : call.weight(layer.b, {{2 * columns}, {0}, {2 * columns}}));
  const auto rows = reshape(layer.x, {layer.steps * layer.batch, layer.inputs});
  const auto all = matmul(rows, wx) + slice(bias, {0}, {columns});
  const auto bh = slice(bias, {columns}, {columns});
  const auto gate = [h](Expr of, std::int64_t which) { return slice(of, {0, which * h}, {-1, h}); };
  auto state = FERRY_TRY(first_state(call, layer, 5));
  std::vector<Expr> states;
  for (std::int64_t step = 0; step < layer.steps; ++step) {
    const auto x = slice(all, {step * layer.batch, 0}, {layer.batch, columns});
    const auto r = matmul(state, wh) + bh;
    const auto update = sigmoid(gate(x, 0) + gate(r, 0));
    const auto reset = sigmoid(gate(x, 1) + gate(r, 1));
    const auto candidate = tanh(gate(x, 2) + reset * gate(r, 2));
    state = candidate + update * (state - candidate);
    states.push_back(reshape(state, {1, layer.batch, h}));
  }
  return concat(states, 0);
}

Result<Expr> usual_gru(Call& call, const Layer& layer) {
  const auto w = FERRY_TRY(weights_of(call, layer));
  const auto b = FERRY_TRY(bias_of(call, layer));
  return gru(layer.x, FERRY_TRY(first_state(call, layer, 5)), w, b);
}

Result<Value> gru_node(Call& call) {
  const auto layer = FERRY_TRY(layer_of(call, kGruOrder));
  const bool late = call.attribute("linear_before_reset", std::int64_t{0}) != 0;
  return outputs_of(call, layer, FERRY_TRY(late ? late_gru(call, layer) : usual_gru(call, layer)));
}

}  // namespace

std::span<const Operator> recurrent_operators() {
  static constexpr std::array kAll = {Operator{"LSTM", lstm_node}, Operator{"GRU", gru_node}};
  return kAll;
}

}  // namespace ferry::models::onnx
