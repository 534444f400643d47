#include "core.h"

namespace tensorferry {

namespace {

struct Type {
  int code;
  const char* name;
  nb::dlpack::dtype type;
};

nb::dlpack::dtype kind(nb::dlpack::dtype_code code, unsigned bits) {
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
}

const Type* types() {
  using Code = nb::dlpack::dtype_code;
  static const Type all[] = {{FERRY_F16, "float16", kind(Code::Float, 16)},
                             {FERRY_BF16, "bfloat16", kind(Code::Bfloat, 16)},
                             {FERRY_F32, "float32", kind(Code::Float, 32)},
                             {FERRY_F64, "float64", kind(Code::Float, 64)},
                             {FERRY_I8, "int8", kind(Code::Int, 8)},
                             {FERRY_I16, "int16", kind(Code::Int, 16)},
                             {FERRY_I32, "int32", kind(Code::Int, 32)},
                             {FERRY_I64, "int64", kind(Code::Int, 64)},
                             {FERRY_U8, "uint8", kind(Code::UInt, 8)},
                             {FERRY_BOOL, "bool", kind(Code::Bool, 8)},
                             {0, nullptr, {}}};
  return all;
}

nb::dlpack::dtype type_for_numpy(int code) {
  if (code == FERRY_BF16) return kind(nb::dlpack::dtype_code::UInt, 16);
  for (const auto* each = types(); each->name != nullptr; ++each)
    if (each->code == code) return each->type;
  fail(FERRY_INTERNAL, "an element type that is unknown");
}

int code_of(const nb::dlpack::dtype& type) {
  for (const auto* each = types(); each->name != nullptr; ++each)
    if (each->type == type) return each->code;
  return 0;
}

template <class Array>
Bytes bytes_of(nb::handle object, const char* problem) {
  Array array;
  if (!nb::try_cast<Array>(object, array)) {
    PyErr_Clear();
    fail(FERRY_INVALID_ARGUMENT, problem);
  }
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.size() != 0 && array.stride(i) != expected)
      fail(FERRY_INVALID_ARGUMENT,
           "the array is not contiguous, row by row; copy it with numpy.ascontiguousarray(), or "
           "write into output() directly");
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  Bytes bytes{array.data(), array.nbytes(), {}, nb::borrow(object)};
  bytes.spec.type = static_cast<std::uint8_t>(code_of(array.dtype()));
  bytes.spec.rank = static_cast<std::uint8_t>(std::min<std::size_t>(array.ndim(), 9));
  for (std::size_t i = 0; i < std::min<std::size_t>(array.ndim(), 8); ++i)
    bytes.spec.dims[i] = static_cast<std::int64_t>(array.shape(i));
  return bytes;
}

}  // namespace

ferry_spec spec_of(nb::handle shape, nb::handle dtype) {
  ferry_spec spec{};
  std::string name;
  if (nb::isinstance<nb::str>(dtype)) name = nb::cast<std::string>(dtype);
  for (const auto* each = types(); each->name != nullptr; ++each)
    if (name == each->name) spec.type = static_cast<std::uint8_t>(each->code);
  if (spec.type == 0) {
    const auto exact = nb::module_::import_("numpy").attr("dtype")(dtype);
    name = nb::cast<std::string>(exact.attr("name"));
    for (const auto* each = types(); each->name != nullptr; ++each)
      if (name == each->name) spec.type = static_cast<std::uint8_t>(each->code);
    if (spec.type == 0)
      fail(FERRY_INVALID_ARGUMENT, "elements of " + name +
                                       " do not travel; float16, bfloat16, float32, float64, int8, "
                                       "int16, int32, int64, uint8 and bool do");
  }
  nb::object dims =
      nb::isinstance<nb::int_>(shape) ? nb::object(nb::make_tuple(shape)) : nb::borrow(shape);
  for (auto dim : dims) {
    if (spec.rank == 8) fail(FERRY_INVALID_ARGUMENT, "a tensor has at most 8 dimensions");
    spec.dims[spec.rank++] = dim.is_none() ? -1 : nb::cast<std::int64_t>(dim);
  }
  return spec;
}

nb::tuple shape_of(const ferry_spec& spec) {
  nb::list dims;
  for (unsigned i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] < 0)
      dims.append(nb::none());
    else
      dims.append(spec.dims[i]);
  }
  return nb::tuple(dims);
}

nb::object empty_array(const ferry_spec& spec) {
  const char* name = "uint16";
  for (const auto* each = types(); each->name != nullptr; ++each)
    if (each->code == spec.type && spec.type != FERRY_BF16) name = each->name;
  return nb::module_::import_("numpy").attr("empty")(shape_of(spec), name);
}

nb::object array_over(const ferry_tensor& tensor, nb::handle owner, bool writable) {
  std::size_t shape[8];
  for (unsigned i = 0; i < tensor.spec.rank; ++i)
    shape[i] = static_cast<std::size_t>(tensor.spec.dims[i]);
  const auto type = type_for_numpy(tensor.spec.type);
  if (writable)
    return nb::cast(
        nb::ndarray<nb::numpy>(tensor.data, tensor.spec.rank, shape, owner, nullptr, type),
        nb::rv_policy::reference);
  return nb::cast(
      nb::ndarray<nb::numpy, nb::ro>(tensor.data, tensor.spec.rank, shape, owner, nullptr, type),
      nb::rv_policy::reference);
}

void make_read_only(nb::handle array) { array.attr("setflags")("write"_a = false); }

Bytes bytes_to_read(nb::handle object) {
  if (nb::isinstance<nb::bytes>(object)) {
    const auto text = nb::borrow<nb::bytes>(object);
    return {text.c_str(),
            text.size(),
            {FERRY_U8, 1, {}, {static_cast<std::int64_t>(text.size())}},
            nb::borrow(object)};
  }
  return bytes_of<nb::ndarray<nb::ro, nb::device::cpu>>(
      object, "an array in the memory of this host is needed (numpy, torch on the CPU, a buffer)");
}

Bytes bytes_to_write(nb::handle object) {
  return bytes_of<nb::ndarray<nb::device::cpu>>(
      object, "an array in the memory of this host that may be written is needed");
}

std::vector<Bytes> all_bytes_to_read(nb::handle objects) {
  std::vector<Bytes> all;
  if (nb::isinstance<nb::list>(objects) || nb::isinstance<nb::tuple>(objects)) {
    for (auto each : objects) all.push_back(bytes_to_read(each));
  } else {
    all.push_back(bytes_to_read(objects));
  }
  return all;
}

}  // namespace tensorferry
