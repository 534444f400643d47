#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Recurrent networks: x [N, I] and a state of H numbers a row, for one step (a cell) or for T of
// them. J = I + H rows of weights for G = gates * H columns.

namespace ferry::graph {
namespace {

using tensor::Spec;

constexpr std::int64_t kLstmGates = 4;
constexpr std::int64_t kGruGates = 3;

// To be called when I, J, G and H are matched.
Status match_gates(Letters& dims, std::int64_t gates) {
  const auto rows = FERRY_TRY(dim_sum(dims['I'], dims['H']));
  FERRY_TRY(dims.set('J', rows, "I + H"));
  const auto columns = FERRY_TRY(dim_product(gates, dims['H']));
  return dims.set('G', columns, fmt::format("{} H", gates));
}

Inferred infer_lstm(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NI"));
  FERRY_TRY(dims.match(1, "NH"));
  FERRY_TRY(dims.match(2, "NH"));
  FERRY_TRY(dims.match(3, "JG"));
  FERRY_TRY(dims.match(4, "G"));
  FERRY_TRY(match_gates(dims, kLstmGates));
  const auto state = FERRY_TRY(f32_of({dims['N'], dims['H']}));
  return std::vector<Spec>{state, state, FERRY_TRY(f32_of({dims['N'], dims['G']}))};
}

Inferred infer_lstm_grad(const Inference& node) {
  Letters dims(node);
  for (const std::size_t state : {0, 1, 3, 4, 6}) FERRY_TRY(dims.match(state, "NH"));
  FERRY_TRY(dims.match(2, "NI"));
  FERRY_TRY(dims.match(5, "JG"));
  FERRY_TRY(dims.match(7, "NG"));
  FERRY_TRY(match_gates(dims, kLstmGates));
  const auto state = FERRY_TRY(f32_of({dims['N'], dims['H']}));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['I']})), state, state,
                           FERRY_TRY(f32_of({dims['J'], dims['G']})),
                           FERRY_TRY(f32_of({dims['G']}))};
}

Inferred infer_gru(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NI"));
  FERRY_TRY(dims.match(1, "NH"));
  FERRY_TRY(dims.match(2, "JG"));
  FERRY_TRY(dims.match(3, "G"));
  FERRY_TRY(match_gates(dims, kGruGates));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['H']})),
                           FERRY_TRY(f32_of({dims['N'], dims['G']}))};
}

Inferred infer_gru_grad(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NH"));
  FERRY_TRY(dims.match(1, "NI"));
  FERRY_TRY(dims.match(2, "NH"));
  FERRY_TRY(dims.match(3, "JG"));
  FERRY_TRY(dims.match(4, "NG"));
  FERRY_TRY(match_gates(dims, kGruGates));
  return std::vector<Spec>{
      FERRY_TRY(f32_of({dims['N'], dims['I']})), FERRY_TRY(f32_of({dims['N'], dims['H']})),
      FERRY_TRY(f32_of({dims['J'], dims['G']})), FERRY_TRY(f32_of({dims['G']}))};
}

Inferred infer_lstm_steps(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "TNI"));
  FERRY_TRY(dims.match(1, "NH"));
  FERRY_TRY(dims.match(2, "NH"));
  FERRY_TRY(dims.match(3, "JG"));
  FERRY_TRY(dims.match(4, "G"));
  FERRY_TRY(match_gates(dims, kLstmGates));
  const auto states = FERRY_TRY(f32_of({dims['T'], dims['N'], dims['H']}));
  return std::vector<Spec>{states, states, FERRY_TRY(f32_of({dims['T'], dims['N'], dims['G']}))};
}

Inferred infer_lstm_steps_grad(const Inference& node) {
  Letters dims(node);
  for (const std::size_t states : {0, 5, 6}) FERRY_TRY(dims.match(states, "TNH"));
  FERRY_TRY(dims.match(1, "TNI"));
  FERRY_TRY(dims.match(2, "NH"));
  FERRY_TRY(dims.match(3, "NH"));
  FERRY_TRY(dims.match(4, "JG"));
  FERRY_TRY(dims.match(7, "TNG"));
  FERRY_TRY(match_gates(dims, kLstmGates));
  const auto state = FERRY_TRY(f32_of({dims['N'], dims['H']}));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['T'], dims['N'], dims['I']})), state, state,
                           FERRY_TRY(f32_of({dims['J'], dims['G']})),
                           FERRY_TRY(f32_of({dims['G']}))};
}

Inferred infer_gru_steps(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "TNI"));
  FERRY_TRY(dims.match(1, "NH"));
  FERRY_TRY(dims.match(2, "JG"));
  FERRY_TRY(dims.match(3, "G"));
  FERRY_TRY(match_gates(dims, kGruGates));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['T'], dims['N'], dims['H']})),
                           FERRY_TRY(f32_of({dims['T'], dims['N'], dims['G']}))};
}

Inferred infer_gru_steps_grad(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "TNH"));
  FERRY_TRY(dims.match(1, "TNI"));
  FERRY_TRY(dims.match(2, "NH"));
  FERRY_TRY(dims.match(3, "JG"));
  FERRY_TRY(dims.match(4, "TNH"));
  FERRY_TRY(dims.match(5, "TNG"));
  FERRY_TRY(match_gates(dims, kGruGates));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['T'], dims['N'], dims['I']})),
                           FERRY_TRY(f32_of({dims['N'], dims['H']})),
                           FERRY_TRY(f32_of({dims['J'], dims['G']})),
                           FERRY_TRY(f32_of({dims['G']}))};
}

// What flowed into an output, or zeros.
Expr flow_or_zeros(Gradient& g, std::uint32_t output) {
  return g.incoming(output) ? g.incoming(output) : zeros_like(g.output(output));
}

Status lstm_back(Gradient& g) {
  FERRY_TRY(g.want_only_first(2));
  const auto all = g.builder().add(
      "LstmCellGrad", {flow_or_zeros(g, 0), flow_or_zeros(g, 1), g.input(0), g.input(1), g.input(2),
                       g.input(3), g.output(1), g.output(2)});
  for (std::uint32_t i = 0; i < 5; ++i) g.set(i, all.at(i));
  return {};
}

Status gru_back(Gradient& g) {
  FERRY_TRY(g.want_only_first());
  const auto all = g.builder().add("GruCellGrad",
                                   {g.incoming(), g.input(0), g.input(1), g.input(2), g.output(1)});
  for (std::uint32_t i = 0; i < 4; ++i) g.set(i, all.at(i));
  return {};
}

Status lstm_steps_back(Gradient& g) {
  FERRY_TRY(g.want_only_first());
  const auto all = g.builder().add("LstmGrad", {g.incoming(), g.input(0), g.input(1), g.input(2),
                                                g.input(3), g.output(0), g.output(1), g.output(2)});
  for (std::uint32_t i = 0; i < 5; ++i) g.set(i, all.at(i));
  return {};
}

Status gru_steps_back(Gradient& g) {
  FERRY_TRY(g.want_only_first());
  const auto all = g.builder().add(
      "GruGrad", {g.incoming(), g.input(0), g.input(1), g.input(2), g.output(0), g.output(1)});
  for (std::uint32_t i = 0; i < 4; ++i) g.set(i, all.at(i));
  return {};
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  return {
      {"LstmCell", 5, 5, infer_lstm, lstm_back},
      {"LstmCellGrad", 8, 8, infer_lstm_grad},
      {"GruCell", 4, 4, infer_gru, gru_back},
      {"GruCellGrad", 5, 5, infer_gru_grad},
      {"Lstm", 5, 5, infer_lstm_steps, lstm_steps_back},
      {"LstmGrad", 8, 8, infer_lstm_steps_grad},
      {"Gru", 4, 4, infer_gru_steps, gru_steps_back},
      {"GruGrad", 6, 6, infer_gru_steps_grad},
  };
}

}  // namespace ferry::graph
