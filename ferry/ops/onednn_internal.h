#pragma once

#include <exception>
#include <map>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "ferry/ops/shaped_internal.h"
#include "ferry/ops/threads_internal.h"

namespace ferry::ops {

// What oneDNN throws becomes a status here; no exception leaves a kernel.
template <class Body>
Status on_onednn(Body body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    return fail(error.status == dnnl_out_of_memory ? Code::kResourceExhausted : Code::kInternal,
                "oneDNN failed with status {}: {}", static_cast<int>(error.status), error.message);
  } catch (const std::bad_alloc&) {
    return fail(Code::kResourceExhausted, "oneDNN found no memory");
  }
}

// The processor, and this thread's queue to it.
const dnnl::engine& engine();
dnnl::stream& stream();

// Attributes of a primitive that works in memory of its caller's.
dnnl::primitive_attr with_scratchpad();

// f32, in the order of the letters' dimensions in memory.
inline dnnl::memory::desc layout(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

// A primitive, made for certain shapes, and where its arguments are in this run.
class Prepared {
 public:
  Prepared() = default;
  // Of any primitive: its kind, and its description.
  template <class Primitive>
  static Prepared of(const typename Primitive::primitive_desc& desc) {
    Prepared prepared;
    prepared.primitive_ = Primitive(desc);
    prepared.scratchpad_ = desc.scratchpad_desc().get_size();
    if (prepared.scratchpad_ > 0) prepared.add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
    return prepared;
  }
  // An argument that the primitive has, and how it lies in memory.
  Prepared& add(int argument, const dnnl::memory::desc& desc) {
    arguments_.insert_or_assign(argument, dnnl::memory(desc, engine(), nullptr));
    return *this;
  }
  void set(int argument, const void* data) {
    arguments_.at(argument).set_data_handle(const_cast<void*>(data));
  }
  Status run(KernelContext& context);

 private:
  dnnl::primitive primitive_;
  std::size_t scratchpad_ = 0;
  std::unordered_map<int, dnnl::memory> arguments_;
};

// From one layout to another, where they differ: a copy, which counts as a reorder.
class Relayout {
 public:
  Relayout() = default;
  Relayout(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  bool needed() const { return needed_; }
  // The bytes of the layout `to`.
  std::size_t bytes() const { return to_.get_desc().get_size(); }
  void run(const void* from, void* to);

 private:
  bool needed_ = false;
  dnnl::reorder reorder_;
  dnnl::memory from_;
  dnnl::memory to_;
};

}  // namespace ferry::ops
