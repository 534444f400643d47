#include "ferry/fabric/region.h"

#include "ferry/fabric/regions_internal.h"

namespace ferry::fabric {

std::span<std::byte> Region::bytes() const {
  return record_ == nullptr ? std::span<std::byte>() : record_->bytes;
}
Rights Region::rights() const { return record_ == nullptr ? Rights::kNone : record_->rights; }
memory::KindId Region::kind() const {
  return record_ == nullptr ? memory::KindId::kHost : record_->block.kind;
}

Status Region::close(Deadline deadline) {
  if (record_ == nullptr) return {};
  const auto regions = record_->regions;  // outlives the record
  FERRY_TRY(regions->close(record_, deadline));
  record_.reset();
  return {};
}

void Region::reset() {
  if (record_ == nullptr) return;
  const auto regions = record_->regions;  // outlives the record
  regions->release_later(record_);
  record_.reset();
}

}  // namespace ferry::fabric
