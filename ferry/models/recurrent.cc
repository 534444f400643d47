#include "ferry/models/catalogue_internal.h"
#include "ferry/models/layers_internal.h"
#include "ferry/models/text.h"

// Networks over sequences: rows of numbers, pairs of sentences, and text.

namespace ferry::models {
namespace {

using graph::Builder;
using graph::Expr;
using graph::Initial;
using tensor::ElementType;
using tensor::Shape;

struct GateWeights {
  Expr w;
  Expr b;
};

// Variables of its own for each gate, side by side as Lstm and Gru take them.
GateWeights gates_apart(Builder& builder, const std::vector<std::string>& gates,
                        std::int64_t inputs, std::int64_t state) {
  const Initial glorot{Initial::Kind::kGlorot};
  std::vector<Expr> for_inputs;
  std::vector<Expr> for_state;
  std::vector<Expr> biases;
  for (const auto& gate : gates) {
    for_inputs.push_back(weights(builder, gate + "/wx", {inputs, state}, glorot));
    for_state.push_back(weights(builder, gate + "/wh", {state, state}, glorot));
    biases.push_back(weights(builder, gate + "/b", {state}, {}));
  }
  return {graph::concat({graph::concat(for_inputs, 1), graph::concat(for_state, 1)}, 0),
          graph::concat(biases, 0)};
}

// One variable for all gates.
GateWeights gates_together(Builder& builder, const std::string& name, std::int64_t gates,
                           std::int64_t inputs, std::int64_t state) {
  return {weights(builder, name + "/w", {inputs + state, gates * state}, {Initial::Kind::kGlorot}),
          weights(builder, name + "/b", {gates * state}, {})};
}

ModelInput whole_numbers(std::string name, std::initializer_list<std::int64_t> dims,
                         std::int64_t below) {
  return {std::move(name), {ElementType::kI32, *Shape::of(dims)}, below};
}

Expr fed(Builder& builder, const ModelInput& input) {
  return builder.input(input.name, input.spec);
}

// Each step of every sequence is a row.
Expr rows_of_steps(Expr y) { return reshape(y, {-1, width_of(y)}); }

// The layer of the models `lstm` and `gru`, from x and a first state of zeros.
using Recurrence = std::function<Expr(Expr x, Expr zeros)>;

constexpr std::int64_t kLongSteps = 80;
constexpr std::int64_t kLongState = 1024;
constexpr std::int64_t kLongClasses = 1000;

Model long_sequences(std::string name, const ModelFacts& facts, const ModelOptions& options,
                     const Recurrence& recurrence) {
  const auto batch = options.batch;
  std::vector<ModelInput> inputs = {
      {"x", {ElementType::kF32, *Shape::of({kLongSteps, batch, kLongState})}},
      whole_numbers("labels", {kLongSteps * batch}, kLongClasses)};
  auto tower = [inputs, batch, recurrence](Builder& builder) {
    const auto y = recurrence(fed(builder, inputs[0]), filled(builder, {batch, kLongState}, 0));
    return classify(dense("out", rows_of_steps(y), kLongClasses), fed(builder, inputs[1]));
  };
  return {std::move(name), Feeds::kSynthetic, std::move(inputs), std::move(tower), facts};
}

Expr long_lstm(Expr x, Expr zeros) {
  if (!x) return {};
  const auto gates =
      gates_apart(*x.builder(), {"input", "forget", "candidate", "output"}, kLongState, kLongState);
  return lstm(x, {zeros, zeros}, gates.w, gates.b);
}

Expr long_gru(Expr x, Expr zeros) {
  if (!x) return {};
  const auto gates =
      gates_apart(*x.builder(), {"reset", "update", "candidate"}, kLongState, kLongState);
  return gru(x, zeros, gates.w, gates.b);
}

// An encoder reads a sentence, and a decoder goes on from the encoder's last state.
constexpr std::int64_t kWords = 40;
constexpr std::int64_t kVocabulary = 10000;
constexpr std::int64_t kWordWidth = 512;
constexpr std::int64_t kSentenceState = 1024;

Expr embedded(const std::string& name, Expr ids, std::int64_t vocabulary, std::int64_t width) {
  if (!ids) return {};
  constexpr double kDeviation = 0.1;
  return embedding(
      weights(*ids.builder(), name, {vocabulary, width}, {Initial::Kind::kNormal, kDeviation}),
      ids);
}

Expr sentence_lstm(const std::string& name, Expr ids, const graph::LstmState& first) {
  if (!ids) return {};
  const auto x = embedded(name + "/table", ids, kVocabulary, kWordWidth);
  const auto gates = gates_together(*ids.builder(), name, 4, kWordWidth, kSentenceState);
  return lstm(x, first, gates.w, gates.b);
}

graph::Tower seq2seq_tower(Builder& builder, const std::vector<ModelInput>& inputs,
                           std::int64_t batch) {
  const auto zeros = filled(builder, {batch, kSentenceState}, 0);
  const auto encoded = sentence_lstm("encoder", fed(builder, inputs[0]), {zeros, zeros});
  const auto last = slice(encoded, {kWords - 1, 0, 0}, {1, -1, -1});
  const auto handed_on = reshape(last, {batch, kSentenceState});
  const auto decoded = sentence_lstm("decoder", fed(builder, inputs[1]), {handed_on, zeros});
  return classify(dense("out", rows_of_steps(decoded), kVocabulary), fed(builder, inputs[2]));
}

// The letter that comes next, in pieces of text of any length.
constexpr std::int64_t kLetterWidth = 64;
constexpr std::int64_t kTextState = 256;

using TextRecurrence = Expr (*)(Expr x, Expr zeros);

Expr lstm_of_letters(Expr x, Expr zeros) {
  if (!x) return {};
  const auto gates = gates_together(*x.builder(), "lstm", 4, kLetterWidth, kTextState);
  return lstm(x, {zeros, zeros}, gates.w, gates.b);
}

Expr gru_of_letters(Expr x, Expr zeros) {
  if (!x) return {};
  const auto gates = gates_together(*x.builder(), "gru", 3, kLetterWidth, kTextState);
  return gru(x, zeros, gates.w, gates.b);
}

Model letters_model(std::string name, const ModelOptions& options, TextRecurrence recurrence) {
  const auto batch = options.batch;
  std::vector<ModelInput> inputs = {whole_numbers("ids", {Shape::kUnknown, batch}, kLetters),
                                    whole_numbers("next", {Shape::kUnknown}, kLetters)};
  auto tower = [inputs, batch, recurrence](Builder& builder) {
    const auto x = embedded("table", fed(builder, inputs[0]), kLetters, kLetterWidth);
    const auto y = recurrence(x, filled(builder, {batch, kTextState}, 0));
    return classify(dense("out", rows_of_steps(y), kLetters), fed(builder, inputs[1]));
  };
  return {std::move(name), Feeds::kText, std::move(inputs), std::move(tower), {.like = "lstm"}};
}

}  // namespace

Model lstm_model(const ModelOptions& options) {
  const ModelFacts facts{.paper_mib = 35.93, .paper_variables = 14, .seconds = 33.33e-3};
  return long_sequences("lstm", facts, options, long_lstm);
}
Model gru_model(const ModelOptions& options) {
  const ModelFacts facts{.paper_mib = 27.92, .paper_variables = 11, .seconds = 30.44e-3};
  return long_sequences("gru", facts, options, long_gru);
}

Model seq2seq(const ModelOptions& options) {
  const auto batch = options.batch;
  std::vector<ModelInput> inputs = {whole_numbers("source", {kWords, batch}, kVocabulary),
                                    whole_numbers("target", {kWords, batch}, kVocabulary),
                                    whole_numbers("labels", {kWords * batch}, kVocabulary)};
  auto tower = [inputs, batch](Builder& builder) { return seq2seq_tower(builder, inputs, batch); };
  return {"seq2seq", Feeds::kSynthetic, std::move(inputs), std::move(tower), {.like = "lstm"}};
}

Model lstm_text(const ModelOptions& options) {
  return letters_model("lstm-text", options, lstm_of_letters);
}
Model gru_text(const ModelOptions& options) {
  return letters_model("gru-text", options, gru_of_letters);
}

}  // namespace ferry::models
