#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"
#include "ferry/interop/grpc_endpoint/unserved_internal.h"

namespace ferry::interop {

namespace {

// The name of a source file of gRPC's that the object which calls epoll_ctl() has in its messages,
// in every version since 2017. Kept backwards, so that a program that the plug-in is linked into
// does not hold the name itself.
constexpr std::string_view kPollerBackwards = "cc.xunil_1llope_ve";

struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool holds(std::uintptr_t address) const { return address >= begin && address < end; }
};

// One object file of the process: the program, or a shared library.
struct LoadedObject {
  std::uintptr_t inside = 0;  // which one is looked for
  std::string path;           // empty: the program
  AddressRange all;
  std::vector<AddressRange> readable;
};

int find_object(dl_phdr_info* info, std::size_t, void* wanted) {
  auto& object = *static_cast<LoadedObject*>(wanted);
  AddressRange all{UINTPTR_MAX, 0};
  std::vector<AddressRange> readable;
  for (const auto& part : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (part.p_type != PT_LOAD) continue;
    const auto begin = info->dlpi_addr + part.p_vaddr;
    all = {std::min(all.begin, begin), std::max(all.end, begin + part.p_memsz)};
    const bool constant = (part.p_flags & (PF_R | PF_W)) == PF_R;
    if (constant) readable.push_back({begin, begin + part.p_filesz});
  }
  if (!all.holds(object.inside)) return 0;
  object.path = info->dlpi_name;
  object.all = all;
  object.readable = std::move(readable);
  return 1;
}

// The address sanitizer is left out: constants of a program lie between its red zones.
__attribute__((no_sanitize("address"))) bool has_text(const AddressRange& range,
                                                      std::string_view text) {
  const auto* const end = reinterpret_cast<const char*>(range.end) - text.size() + 1;
  for (const auto* at = reinterpret_cast<const char*>(range.begin); at < end; ++at) {
    std::size_t same = 0;
    while (same < text.size() && at[same] == text[same]) ++same;
    if (same == text.size()) return true;
  }
  return false;
}

bool has_poller_of_grpc(const LoadedObject& object) {
  static const std::string poller(kPollerBackwards.rbegin(), kPollerBackwards.rend());
  return std::any_of(object.readable.begin(), object.readable.end(),
                     [](const AddressRange& range) { return has_text(range, poller); });
}

// Objects that were looked at already. Lock-free for those that are found.
class KnownObjects {
 public:
  bool holds(std::uintptr_t address) const {
    const auto count = count_.load(std::memory_order_acquire);
    return std::any_of(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](const AddressRange& range) { return range.holds(address); });
  }
  bool full() const { return count_.load(std::memory_order_relaxed) == ranges_.size(); }
  void add(const AddressRange& range) {
    LockGuard<Mutex> guard(lock_);
    const auto count = count_.load(std::memory_order_relaxed);
    if (count == ranges_.size()) return;
    ranges_[count] = range;
    count_.store(count + 1, std::memory_order_release);
  }

 private:
  Mutex lock_;
  std::array<AddressRange, 64> ranges_{};  // only added to
  std::atomic<std::size_t> count_{0};
};

KnownObjects& known_objects() {
  static auto* const objects = new KnownObjects;  // outlives every thread
  return *objects;
}

std::atomic<bool> silent{false};
std::uintptr_t served = 0;  // written before main()

void say_unserved(const LoadedObject& object) {
  const bool library =
      std::filesystem::path(object.path).filename().string().starts_with("libgrpc.so.");
  if (library) {
    logger().warn(
        "gRPC in {} stays on TCP: the program loaded it after it had started, and the plug-in "
        "cannot reach it then. If it is gRPC {}, preload it as well: LD_PRELOAD={}",
        object.path, kGrpcVersion, object.path);
  } else {
    logger().warn(
        "gRPC in {} stays on TCP: it is a copy that is linked in there, and the plug-in serves the "
        "shared library of gRPC {} only",
        object.path.empty() ? "the program" : object.path, kGrpcVersion);
  }
}

}  // namespace

void note_epoll_caller(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (silent.load(std::memory_order_relaxed)) return;
  auto& known = known_objects();
  if (known.holds(address) || known.full()) return;
  LoadedObject object;
  object.inside = address;
  if (::dl_iterate_phdr(&find_object, &object) != 1) return;
  known.add(object.all);
  if (object.all.holds(served) || !has_poller_of_grpc(object)) return;
  if (!silent.exchange(true) && PluginOptions::get().on) say_unserved(object);
}

void set_served_grpc(const void* inside) { served = reinterpret_cast<std::uintptr_t>(inside); }

void silence_unserved() { silent.store(true); }

}  // namespace ferry::interop
