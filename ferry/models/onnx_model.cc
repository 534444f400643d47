#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ferry/models/layers_internal.h"
#include "ferry/models/onnx/call.h"
#include "ferry/models/onnx_model_internal.h"
#include "ferry/ops/evaluate.h"
#include "ferry/ops/threads.h"

namespace ferry::models::onnx {
namespace {

using graph::Expr;
using tensor::ElementType;

// A file whose constants were read, and which of its nodes count.
struct Source {
  File file;
  std::map<std::string, Value> constants;
  std::vector<InputEntry> inputs;  // that the model is fed with
  std::string logits;
  std::vector<const NodeEntry*> nodes;
};

const Operator* find_operator(std::string_view name) {
  for (const auto all :
       {layer_operators(), element_operators(), shape_operators(), recurrent_operators()})
    for (const auto& each : all)
      if (each.name == name) return &each;
  return nullptr;
}

// The first output, or what its softmax is made from: the loss has one of its own.
std::string logits_of(const File& file) {
  for (const auto& node : file.nodes)
    if (!node.outputs.empty() && !node.inputs.empty() && node.outputs[0] == file.outputs[0] &&
        (node.op == "Softmax" || node.op == "LogSoftmax"))
      return node.inputs[0];
  return file.outputs[0];
}

// What the logits need, in the file's order: makers come before users there.
std::vector<const NodeEntry*> needed_nodes(const File& file, const std::string& logits) {
  std::set<std::string> needed = {logits};
  std::vector<const NodeEntry*> nodes;
  for (auto node = file.nodes.rbegin(); node != file.nodes.rend(); ++node) {
    const bool counts = std::any_of(node->outputs.begin(), node->outputs.end(),
                                    [&](const auto& output) { return needed.contains(output); });
    if (!counts) continue;
    nodes.push_back(&*node);
    needed.insert(node->inputs.begin(), node->inputs.end());
    needed.erase("");
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

Result<std::shared_ptr<const Source>> source_of(File file) {
  auto source = std::make_shared<Source>();
  source->file = std::move(file);
  const auto& all = source->file;
  if (all.outputs.empty()) return fail(Code::kInvalidArgument, "the graph has no output");
  for (const auto& entry : all.initializers) {
    auto value = tensor_of(entry);
    if (!value)
      return fail(value.error().code(), "constant '{}': {}", entry.name, value.error().message());
    source->constants[entry.name] = {.name = entry.name, .known = *std::move(value)};
  }
  for (const auto& input : all.inputs)
    if (!source->constants.contains(input.name)) source->inputs.push_back(input);
  if (source->inputs.empty()) return fail(Code::kInvalidArgument, "the graph has no input");
  source->logits = logits_of(all);
  source->nodes = needed_nodes(all, source->logits);
  return source;
}

bool is_image(const InputEntry& input) { return input.dims.size() == 4; }

// As we have it: images are [N, H, W, C], whole numbers i32, and the batch is the job's.
Result<ModelInput> input_of(const InputEntry& input, bool alone, std::int64_t batch) {
  constexpr std::int64_t kFloat = 1;
  constexpr std::int64_t kInt32 = 6;
  constexpr std::int64_t kInt64 = 7;
  if (input.type != kFloat && input.type != kInt32 && input.type != kInt64)
    return fail(Code::kUnimplemented, "input '{}' is of ONNX's type {}; f32, i32 and i64 are there",
                input.name, input.type);
  auto dims = input.dims;
  if (dims.empty()) return fail(Code::kInvalidArgument, "input '{}' has no batch", input.name);
  dims[0] = batch;
  if (std::any_of(dims.begin(), dims.end(), [](auto dim) { return dim < 1; }))
    return fail(Code::kInvalidArgument,
                "input '{}' is [{}]; all dimensions but the first must be known", input.name,
                fmt::join(input.dims, ", "));
  const bool real = input.type == kFloat;
  if (is_image(input) && real) dims = {dims[0], dims[2], dims[3], dims[1]};
  const auto shape = FERRY_TRY(tensor::Shape::of(dims));
  return ModelInput{.name = alone && is_image(input) ? "images" : "inputs/" + input.name,
                    .spec = {real ? ElementType::kF32 : ElementType::kI32, shape},
                    .below = real ? 0 : 2};
}

Result<std::vector<ModelInput>> inputs_of(const Source& source, std::int64_t batch) {
  std::vector<ModelInput> inputs;
  for (const auto& input : source.inputs)
    inputs.push_back(FERRY_TRY(input_of(input, source.inputs.size() == 1, batch)));
  return inputs;
}

// Kernels run on one thread while a file is read: processes that are started later would miss
// others.
class OneThread {
 public:
  OneThread() { ops::set_threads(1); }
  ~OneThread() { ops::set_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const unsigned before_ = ops::threads();
};

// Makes what is known, in a graph of its own.
Result<Value> folded(Import& import, const Operator& op, const NodeEntry& node) {
  graph::Graph graph;
  graph::Builder builder(graph);
  Call call(import, node, builder);
  const auto value = FERRY_TRY(op.convert(call));
  FERRY_TRY(Status(builder.status()));
  if (!value.expr) return value;
  const auto result = FERRY_TRY(call.plain_of(value));
  // A small file could ask for any amount of memory.
  constexpr std::uint64_t kAlways = std::uint64_t{16} << 20U;
  import.folded_bytes += FERRY_TRY(result.spec().bytes());
  if (import.folded_bytes > kAlways + 4 * size_of(import.file))
    return fail(Code::kResourceExhausted, "the file's constants grow beyond {} bytes",
                import.folded_bytes);
  const OneThread one;
  ops::Tensors none;
  const std::array fetches = {result.output()};
  const auto made = FERRY_TRY(ops::evaluate(graph, none, {}, fetches));
  return known_value(made[0]);
}

bool all_known(const Import& import, const NodeEntry& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const auto& name) {
    const auto found = import.values.find(name);
    return name.empty() || (found != import.values.end() && !found->second.expr);
  });
}

Result<Value> converted_node(Import& import, const NodeEntry& node) {
  const auto* op = find_operator(node.op);
  if (op == nullptr || !(node.domain.empty() || node.domain == "ai.onnx"))
    return fail(Code::kUnimplemented, "this operator cannot be imported");
  if (op->folds && all_known(import, node)) return folded(import, *op, node);
  const auto within = import.builder.within(node.name.starts_with('/') ? node.name.substr(1)
                                            : node.name.empty()        ? node.op
                                                                       : node.name);
  Call call(import, node, import.builder);
  auto value = FERRY_TRY(op->convert(call));
  FERRY_TRY(Status(import.builder.status()));
  return value;
}

Status add_node(Import& import, const NodeEntry& node) {
  auto value = converted_node(import, node);
  if (!value)
    return fail(value.error().code(), "node '{}' ({}): {}", node.name, node.op,
                value.error().message());
  if (node.outputs.empty() || node.outputs[0].empty()) return {};
  value->name = node.outputs[0];
  // A weight that is turned round before it is used keeps its name.
  if (node.op == "Transpose" && !value->expr) {
    const auto& turned = import.values.at(node.inputs[0]);
    value->origin = turned.origin.empty() ? turned.name : turned.origin;
  }
  import.values[node.outputs[0]] = *std::move(value);
  return {};
}

void add_inputs(Import& import, const Source& source, std::span<const ModelInput> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& entry = source.inputs[i];
    const auto expr = import.builder.input(inputs[i].name, inputs[i].spec);
    const bool image = is_image(entry) && inputs[i].spec.type == ElementType::kF32;
    auto value = image ? image_value(expr) : plain_value(expr);
    value.name = entry.name;
    import.values[entry.name] = std::move(value);
  }
}

// [N, classes]
Result<Expr> find_logits(Import& import) {
  const auto found = import.values.find(import.logits);
  if (found == import.values.end() || !found->second.expr)
    return fail(Code::kInvalidArgument, "the output '{}' does not depend on any input",
                import.logits);
  const NodeEntry none;
  Call call(import, none, import.builder);
  auto logits = FERRY_TRY(call.plain_of(found->second));
  const auto dims = dims_of(logits.spec().shape);
  const auto classes = product_of(std::span(dims).subspan(std::min<std::size_t>(1, dims.size())));
  const bool rows = dims.size() > 1 && dims[0] == import.batch && dims[1] == classes && classes > 0;
  if (!rows || logits.spec().type != ElementType::kF32)
    return fail(Code::kInvalidArgument, "the output '{}' is {}; a classifier's is f32[{}, classes]",
                import.logits, logits.spec().to_string(), import.batch);
  return dims.size() == 2 ? logits : reshape(logits, {dims[0], classes});
}

struct Built {
  Expr logits;
  std::map<graph::NodeId, std::int64_t> rows;  // of the tables that inputs look up
};

// Adds the model to the graph; `initial` gets what its variables begin with, unless it is null.
Result<Built> build(const Source& source, std::span<const ModelInput> inputs,
                    graph::Builder& builder, std::map<std::string, tensor::Tensor>* initial) {
  Import import{.file = source.file,
                .builder = builder,
                .batch = inputs[0].spec.shape.dim(0),
                .logits = source.logits,
                .file_batch = source.inputs[0].dims[0],
                .values = source.constants,
                .initial = initial};
  add_inputs(import, source, inputs);
  FERRY_TRY(Status(builder.status()));
  for (const auto* node : source.nodes) FERRY_TRY(add_node(import, *node));
  return Built{FERRY_TRY(find_logits(import)), import.rows};
}

graph::Tower tower_of(const Source& source, std::span<const ModelInput> inputs,
                      graph::Builder& builder) {
  const auto built = build(source, inputs.first(inputs.size() - 1), builder, nullptr);
  if (!built) {
    builder.note(built.error());
    return {};
  }
  return classify(built->logits, builder.input(inputs.back().name, inputs.back().spec));
}

// Builds it once, to see that it can be done, and what the variables begin with.
Result<Model> model_from(const std::shared_ptr<const Source>& source, const ModelOptions& options) {
  Model model;
  model.inputs = FERRY_TRY(inputs_of(*source, options.batch));
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto built = FERRY_TRY(build(*source, model.inputs, builder, &model.initial));
  for (const auto& [node, rows] : built.rows)
    for (auto& input : model.inputs)
      if (input.name == graph.node(node).name) input.below = rows;
  const auto classes = built.logits.spec().shape.dim(1);
  const auto labels = FERRY_TRY(tensor::Shape::of({options.batch}));
  const bool small = model.inputs.size() == 1 && source->inputs[0].dims.size() == 4 &&
                     std::equal(source->inputs[0].dims.begin() + 1, source->inputs[0].dims.end(),
                                std::array<std::int64_t, 3>{1, 28, 28}.begin());
  model.feeds = small && classes == 10 ? Feeds::kImages : Feeds::kSynthetic;
  model.inputs.push_back({"labels", {ElementType::kI32, labels}, classes});
  model.tower = [source, inputs = model.inputs](graph::Builder& each) {
    return tower_of(*source, inputs, each);
  };
  return model;
}

Result<Model> named(const std::string& name, Result<Model> model) {
  if (!model) return fail(model.error().code(), "{}: {}", name, model.error().message());
  model->name = name;
  return model;
}

Result<Model> model_of_file(Result<File> file, const ModelOptions& options) {
  if (!file) return tl::unexpected(std::move(file).error());
  const auto source = FERRY_TRY(source_of(*std::move(file)));
  return model_from(source, options);
}

}  // namespace

Result<Model> model_in(const std::string& path, const ModelOptions& options) {
  return named(path, model_of_file(read_file(path), options));
}

Result<Model> model_of(File file, const std::string& name, const ModelOptions& options) {
  return named(name, model_of_file(std::move(file), options));
}

}  // namespace ferry::models::onnx
