#include <algorithm>
#include <utility>

#include "ferry/ps/scheduler/tensors_internal.h"

namespace ferry::ps {
namespace {

Bytes tensor_answer(bool created, const TensorInfo& info, std::uint64_t view) {
  Bytes answer;
  bootstrap::Encoder out(answer);
  out.u8(created ? 1 : 0).u64(view);
  put(out, info);
  return answer;
}

}  // namespace

void Tensors::restore(const JobImage& image) {
  last_tensor_ = image.last_tensor;
  for (const auto& record : image.tensors) {
    TensorAt tensor;
    static_cast<TensorRecord&>(tensor) = record;
    placement_->count_in(record.info.runs);
    tensors_.emplace(record.info.name, std::move(tensor));
  }
}

void Tensors::save(JobImage& image) const {
  image.last_tensor = last_tensor_;
  for (const auto& [name, tensor] : tensors_) image.tensors.push_back(tensor);
}

bool Tensors::all_there() const {
  return std::all_of(tensors_.begin(), tensors_.end(),
                     [](const auto& each) { return each.second.there; });
}

Result<TensorInfo> Tensors::plan(TensorInfo info, std::uint64_t most_block_bytes) {
  const auto bytes = FERRY_TRY(info.spec.bytes());
  info.id = last_tensor_ + 1;
  info.block_bytes = BlockPlacement::block_bytes(info.spec, most_block_bytes);
  info.runs = placement_->place(bytes, info.block_bytes);
  return info;
}

void Tensors::add(TensorInfo info, std::uint32_t creator, bool there) {
  last_tensor_ = info.id;
  const auto name = info.name;
  TensorAt tensor;
  tensor.info = std::move(info);
  tensor.there = there;
  tensor.creator = creator;
  tensors_.emplace(name, std::move(tensor));
}

void Tensors::discard(const TensorInfo& info) {
  last_tensor_ = std::max(last_tensor_, info.id);
  placement_->take_back(info.runs);
}

std::optional<Bytes> Tensors::show(const Question& question, TensorAt& tensor, std::uint64_t view,
                                   Effects& out) {
  if (tensor.there) return tensor_answer(false, tensor.info, view);
  std::erase_if(tensor.waiting, [&](const auto& each) {
    if (each.peer != question.peer) return false;
    out.emplace_back(asked_again(each));
    return true;
  });
  tensor.waiting.push_back(question);
  return std::nullopt;
}

Result<std::optional<Bytes>> Tensors::init(const Question& question, std::uint32_t rank,
                                           const TensorInfo& info, std::uint64_t view,
                                           Effects& out) {
  auto& tensor = tensors_.find(info.name)->second;
  const auto& known = tensor.info;
  if (known.spec != info.spec || known.update != info.update)
    return fail(Code::kAlreadyExists, "tensor '{}' is {} with {}, and not {} with {}", info.name,
                known.spec.to_string(), known.update.to_string(), info.spec.to_string(),
                info.update.to_string());
  // Its answer was lost with the scheduler before this one.
  const bool again = !tensor.there && rank != kNobody && tensor.creator == rank;
  return again ? created_answer(known, view) : show(question, tensor, view, out);
}

Result<std::optional<Bytes>> Tensors::find(const Question& question, const std::string& name,
                                           std::uint64_t view, Effects& out) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    return fail(Code::kNotFound, "there is no tensor '{}'; init() makes it", name);
  return show(question, found->second, view, out);
}

Bytes Tensors::created_answer(const TensorInfo& info, std::uint64_t view) {
  return tensor_answer(true, info, view);
}

void Tensors::set_there(std::uint32_t id, std::uint64_t view, Effects& out) {
  for (auto& [name, tensor] : tensors_) {
    if (tensor.info.id != id) continue;
    tensor.there = true;
    for (const auto& question : std::exchange(tensor.waiting, {}))
      out.emplace_back(Answer{question, tensor_answer(false, tensor.info, view)});
  }
}

std::vector<std::uint32_t> Tensors::forget(std::uint32_t creator, Effects& out) {
  std::vector<std::uint32_t> dropped;
  for (auto each = tensors_.begin(); each != tensors_.end();) {
    auto& tensor = each->second;
    if (tensor.there || tensor.creator != creator) {
      ++each;
      continue;
    }
    for (const auto& question : tensor.waiting)
      out.emplace_back(Answer{
          question, fail(Code::kAborted,
                         "the worker that made '{}' died before it had sent the first values; "
                         "init() it again",
                         each->first)});
    dropped.push_back(tensor.info.id);
    discard(tensor.info);
    each = tensors_.erase(each);
  }
  return dropped;
}

void Tensors::forget_waiting(PeerId peer) {
  for (auto& [name, tensor] : tensors_)
    std::erase_if(tensor.waiting, [&](const Question& each) { return each.peer == peer; });
}

std::vector<Question> Tensors::take_waiting() {
  std::vector<Question> questions;
  for (auto& [name, tensor] : tensors_)
    for (const auto& question : std::exchange(tensor.waiting, {})) questions.push_back(question);
  return questions;
}

std::vector<TensorInfo> Tensors::infos() const {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors_) infos.push_back(tensor.info);
  return infos;
}

std::vector<TensorInfo> Tensors::infos_there() const {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors_)
    if (tensor.there) infos.push_back(tensor.info);
  return infos;
}

Bytes Tensors::names() const {
  Bytes answer;
  for (const auto& [name, tensor] : tensors_)
    if (tensor.there) bootstrap::Encoder(answer).string(name);
  return answer;
}

}  // namespace ferry::ps
