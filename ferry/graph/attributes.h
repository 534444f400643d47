#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ferry/tensor/tensor.h"

namespace ferry::graph {

// What a node is told besides its inputs: names with values, in the order of the names. Plain data;
// a tensor is shared, not copied, and nobody writes to it.
class Attributes {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                             tensor::ElementType, tensor::Shape, tensor::Tensor>;

  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Value>> values)
      : values_(values.begin(), values.end()) {}

  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }

  // kNotFound if there is none of that name, kInvalidArgument if it is of another kind.
  template <class T>
  Result<T> get(std::string_view name) const;
  // The fallback where there is none; one of another kind is a mistake of the program's.
  template <class T>
  T get_or(std::string_view name, T fallback) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

template <class T>
Result<T> Attributes::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fail(Code::kNotFound, "there is no attribute '{}'", name);
  if (const auto* value = std::get_if<T>(&found->second)) return *value;
  return fail(Code::kInvalidArgument, "attribute '{}' is of another kind", name);
}

template <class T>
T Attributes::get_or(std::string_view name, T fallback) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fallback;
  const auto* value = std::get_if<T>(&found->second);
  FERRY_ASSERT(value != nullptr, "the attribute is of the kind that its operator's check saw");
  return *value;
}

}  // namespace ferry::graph
