#include <sys/stat.h>

#include <map>
#include <utility>

#include "ferry/base/spin.h"
#include "ferry/fabric/shm/segment_internal.h"

namespace ferry::fabric::shm {

namespace {

struct Known {
  Mutex lock;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<const Mapping>> all FERRY_GUARDED_BY(lock);
};

Known& known() {
  static Known* made = new Known;  // never destroyed: devices may outlive main()
  return *made;
}

}  // namespace

Result<std::shared_ptr<const Mapping>> map_segment(const Fd& fd, std::size_t length) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno(errno, "looking at a segment");
  Known& here = known();
  LockGuard<Mutex> guard(here.lock);
  std::erase_if(here.all, [](const auto& each) { return each.second.expired(); });
  auto& place = here.all[{info.st_dev, info.st_ino}];
  auto mapping = place.lock();
  if (mapping != nullptr && mapping->size() == length) return mapping;
  mapping = std::make_shared<const Mapping>(FERRY_TRY(Mapping::shared(fd.get(), length)));
  place = mapping;
  return mapping;
}

}  // namespace ferry::fabric::shm
