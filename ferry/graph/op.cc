#include "ferry/graph/op.h"

#include <map>
#include <mutex>

#include "ferry/graph/standard_internal.h"

namespace ferry::graph {
namespace {

// Never destroyed: graphs may live as long as the process.
class Registry {
 public:
  static Registry& one() {
    static auto* registry = new Registry;
    return *registry;
  }

  Registry() {
    add_own(standard_ops());
    add_own(transfer_ops());
  }
  const OpDef* find(std::string_view name) {
    const std::lock_guard hold(mutex_);
    const auto found = ops_.find(name);
    return found == ops_.end() ? nullptr : &found->second;
  }
  Status add(OpDef def) {
    const std::lock_guard hold(mutex_);
    auto name = def.name;
    if (!ops_.emplace(name, std::move(def)).second)
      return fail(Code::kAlreadyExists, "there is an operator {} already", name);
    return {};
  }

 private:
  void add_own(std::vector<OpDef> defs) {
    for (auto& def : defs)
      FERRY_ASSERT(add(std::move(def)), "no two of the library's operators share a name");
  }

  std::mutex mutex_;
  std::map<std::string, OpDef, std::less<>> ops_;
};

}  // namespace

const OpDef* find_op(std::string_view name) { return Registry::one().find(name); }

Status register_op(OpDef def) {
  if (def.name.empty() || !def.infer)
    return fail(Code::kInvalidArgument, "an operator needs a name and a shape function");
  return Registry::one().add(std::move(def));
}

}  // namespace ferry::graph
