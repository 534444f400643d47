#include "core.h"

namespace tensorferry {

namespace {

// An exception of tensorferry.errors that says the same.
void raise(const Failure& failure) {
  const auto made = nb::module_::import_("tensorferry.errors")
                        .attr("error_of")(failure.code, failure.message, failure.os_code);
  PyErr_SetObject(made.type().ptr(), made.ptr());
}

}  // namespace

}  // namespace tensorferry

NB_MODULE(_core, module) {
  using namespace tensorferry;  // NOLINT(google-build-using-namespace)
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      raise(failure);
    }
  });
  // A thread that waits when the interpreter ends keeps what it waits on.
  nb::set_leak_warnings(false);
  module.attr("__version__") = ferry_version();
  module.def("_begin_end", &begin_end);
  module.def("_code_name", &ferry_code_name);
  bind_device(module);
  bind_edges(module);
  bind_mail(module);
  bind_ps(module);
}
