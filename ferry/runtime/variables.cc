#include "ferry/runtime/variables.h"

#include <cstring>

namespace ferry::runtime {

tensor::Tensor Variable::read() const {
  const std::lock_guard hold(mutex_);
  return value_;
}

Result<tensor::Tensor> Variable::next_memory(const tensor::Spec& spec, Deadline deadline) {
  if (shared_ != nullptr) return shared_->output(deadline);
  if (!versions_ && value_.spec() == spec) return value_;
  return memory_.take(spec);
}

Status Variable::keep(const tensor::Tensor& value) {
  if (shared_ != nullptr) FERRY_TRY(shared_->publish());
  tensor::Tensor before;
  {
    const std::lock_guard hold(mutex_);
    before = std::exchange(value_, value);
  }
  const bool other = before.share() != nullptr && before.data() != value.data();
  if (other && shared_ == nullptr) memory_.give(std::move(before));
  return {};
}

Status Variable::assign(const tensor::Tensor& value, SharedVariable* shared, Deadline deadline) {
  const std::lock_guard update(updating_);
  shared_ = shared;
  const auto memory = FERRY_TRY(next_memory(value.spec(), deadline));
  if (!value.bytes().empty()) std::memmove(memory.data(), value.data(), value.bytes().size());
  return keep(memory);
}

Result<tensor::Tensor> Variable::begin_update(Deadline deadline) {
  updating_.lock();
  auto memory = next_memory(value_.spec(), deadline);
  if (memory) {
    next_ = *memory;
  } else {
    updating_.unlock();
  }
  return memory;
}

Status Variable::end_update(bool well) {
  auto value = std::exchange(next_, {});
  const std::lock_guard update(updating_, std::adopt_lock);
  return well ? keep(value) : Status();
}

Result<Variable*> Variables::add(const std::string& name) {
  const auto [place, added] = all_.emplace(name, nullptr);
  if (!added) return fail(Code::kAlreadyExists, "there is a variable '{}' already", name);
  place->second = std::make_unique<Variable>(make_, versions_);
  return place->second.get();
}

Result<Variable*> Variables::find(std::string_view name) const {
  const auto found = all_.find(name);
  if (found == all_.end()) return fail(Code::kNotFound, "there is no variable '{}' here", name);
  return found->second.get();
}

}  // namespace ferry::runtime
