#include "ferry/runtime/buffers.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <new>

namespace ferry::runtime {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

class OrdinaryBlock final : public Block {
 public:
  explicit OrdinaryBlock(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~OrdinaryBlock() override { std::free(bytes_.data()); }
  OrdinaryBlock(const OrdinaryBlock&) = delete;
  OrdinaryBlock& operator=(const OrdinaryBlock&) = delete;
  std::span<std::byte> bytes() const override { return bytes_; }

 private:
  const std::span<std::byte> bytes_;
};

// Sizes that are nearly the same share blocks: an eighth is wasted at most.
std::uint64_t size_class(std::uint64_t bytes) {
  if (bytes <= 512) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Result<std::shared_ptr<Block>> make_ordinary_block(std::uint64_t bytes) {
  const auto alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const auto size = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, std::max(size, alignment)));
  if (memory == nullptr)
    return fail(Code::kResourceExhausted, "there are no {} bytes of memory for a tensor", bytes);
  if (alignment == kHugePage) (void)madvise(memory, size, MADV_HUGEPAGE);
  return std::make_shared<OrdinaryBlock>(std::span(memory, bytes));
}

Result<tensor::Tensor> Buffers::take(const tensor::Spec& spec) {
  const auto bytes = FERRY_TRY(spec.bytes());
  const auto size = size_class(bytes);
  auto& free = free_[size];
  if (free.empty() && !viewed_.empty()) collect();
  std::shared_ptr<Block> block;
  if (free.empty()) {
    block = FERRY_TRY(make_(size));
    ++made_;
  } else {
    block = std::move(free.back());
    free.pop_back();
  }
  const auto memory = block->bytes().first(bytes);
  return tensor::Tensor::over(spec, memory, std::move(block));
}

void Buffers::give(tensor::Tensor tensor) {
  auto block = std::static_pointer_cast<Block>(tensor.share());
  tensor = {};
  if (block.use_count() > 1) {
    viewed_.push_back(std::move(block));
    return;
  }
  const auto size = block->bytes().size();
  free_[size].push_back(std::move(block));
}

void Buffers::collect() {
  auto kept = viewed_.begin();
  for (auto& block : viewed_) {
    if (block.use_count() > 1) {
      *kept++ = std::move(block);
    } else {
      const auto size = block->bytes().size();
      free_[size].push_back(std::move(block));
    }
  }
  viewed_.erase(kept, viewed_.end());
}

}  // namespace ferry::runtime
