// Data path.
#include "ferry/runtime/executor_internal.h"

namespace ferry::runtime {

void Executor::Core::drop_use(ValueId value_id) {
  if (--values_[value_id].uses_left == 0) drop(value_id);
}

void Executor::Core::drop(ValueId value_id) {
  auto& value = values_[value_id];
  value.writable = false;
  if (auto* home = std::exchange(value.home, nullptr)) {
    home->give(std::move(value.tensor));
  }
  value.tensor = {};
}

void Executor::Core::pass(std::uint32_t index, tensor::Tensor value) {
  values_[item_->first_output + index].tensor = std::move(value);
}

Result<tensor::Tensor> Executor::Core::output(std::uint32_t index, const tensor::Spec& spec) {
  auto& value = values_[item_->first_output + index];
  if (index == 0 && item_->updated != nullptr) {
    value.tensor = next_value_;
  } else if (!FERRY_TRY(reuse(index, spec))) {
    FERRY_TRY(allocate(spec, value));
  }
  return value.tensor;
}

// What is updated is the newest value: another loop may have made it since this step began.
Status Executor::Core::begin_update() {
  auto next = item_->updated->begin_update(deadline_);
  if (!next) return named(next.error(), *item_);
  auto& input = values_[item_->inputs[0]].tensor;
  const auto newest = item_->updated->read();
  auto same = tensor::Tensor::over(input.spec(), newest.bytes(), newest.share());
  if (!same) {
    (void)item_->updated->end_update(false);
    return named(same.error(), *item_);
  }
  input = *std::move(same);
  next_value_ = *std::move(next);
  updating_ = true;
  return {};
}

// The output takes over the memory of an input that nobody else uses.
Result<bool> Executor::Core::reuse(std::uint32_t index, const tensor::Spec& spec) {
  const auto bytes = FERRY_TRY(spec.bytes());
  for (const auto& pair : item_->node->op->reuses) {
    if (pair.output != index || pair.input >= item_->inputs.size()) continue;
    auto& input = values_[item_->inputs[pair.input]];
    if (!input.writable || input.uses_left != 1 || input.tensor.bytes().size() != bytes) continue;
    // The value's own, and the one of whoever keeps the memory: a view would be one more.
    if (input.tensor.share().use_count() > (input.home != nullptr ? 1 : 2)) continue;
    auto& value = values_[item_->first_output + index];
    value.tensor =
        FERRY_TRY(tensor::Tensor::over(spec, input.tensor.bytes(), input.tensor.share()));
    value.home = std::exchange(input.home, nullptr);
    value.writable = true;
    input.writable = false;
    return true;
  }
  return false;
}

Status Executor::Core::allocate(const tensor::Spec& spec, Value& value) {
  const auto choice = allocation_.next_of(at_);
  value.writable = true;
  if (choice.memory == OutputAllocation::Memory::kEnd) {
    if (auto place = FERRY_TRY(choice.end->output(spec))) {
      value.tensor = *std::move(place);
      allocation_.note(value.tensor, choice);
      return {};
    }
  }
  const bool ordinary = choice.memory == OutputAllocation::Memory::kOrdinary;
  value.home = ordinary ? &ordinary_ : &registered_;
  value.tensor = FERRY_TRY(value.home->take(spec));
  allocation_.note(value.tensor, choice);
  return {};
}

Result<std::span<std::byte>> Executor::Core::scratch(std::uint64_t bytes) {
  const auto shape = FERRY_TRY(tensor::Shape::of({static_cast<std::int64_t>(bytes)}));
  scratch_in_use_.push_back(FERRY_TRY(scratch_.take({tensor::ElementType::kU8, shape})));
  return scratch_in_use_.back().bytes();
}

Result<tensor::Tensor> Executor::Core::fed(std::string_view name) {
  for (const auto& feed : feeds_)
    if (feed.name == name) return feed.value;
  return fail(Code::kInvalidArgument, "the step is not fed with '{}'", name);
}

}  // namespace ferry::runtime
