#include <cstring>

#include "ferry/ops/standard_internal.h"
#include "ferry/ops/walk_internal.h"

// Operators that move elements and do not look at them: of any type, by its size.

namespace ferry::ops {
namespace {

// Moves rows of n elements of `size` bytes; the places are in elements.
struct Mover {
  const std::byte* from;
  std::byte* to;
  std::size_t size;

  template <class T>
  void gather(std::int64_t to_at, std::int64_t from_at, std::size_t n, std::int64_t step) const {
    auto* y = reinterpret_cast<T*>(to) + to_at;
    const auto* x = reinterpret_cast<const T*>(from) + from_at;
    for (std::size_t i = 0; i < n; ++i) y[i] = x[static_cast<std::int64_t>(i) * step];
  }
  // n elements, `step` apart, to places one after another.
  void operator()(std::int64_t to_at, std::int64_t from_at, std::size_t n,
                  std::int64_t step) const {
    if (step == 1 || n == 1) {
      std::memcpy(to + static_cast<std::size_t>(to_at) * size,
                  from + static_cast<std::size_t>(from_at) * size, n * size);
    } else if (size == 1) {
      gather<std::uint8_t>(to_at, from_at, n, step);
    } else if (size == 2) {
      gather<std::uint16_t>(to_at, from_at, n, step);
    } else if (size == 4) {
      gather<std::uint32_t>(to_at, from_at, n, step);
    } else {
      gather<std::uint64_t>(to_at, from_at, n, step);
    }
  }
};

Mover mover_of(const tensor::Tensor& from, const tensor::Tensor& to) {
  return {from.data(), to.data(), tensor::size_of(to.type())};
}

// Tiles of a matrix of 4-byte elements that is turned: what a tile reads stays in the cache until
// all of it is used.
void turn_tiles(const std::uint32_t* x, std::uint32_t* y, std::size_t rows, std::size_t columns,
                std::size_t x_step) {
  constexpr std::size_t kTile = 16;
  for (std::size_t r = 0; r < rows; r += kTile)
    for (std::size_t c = 0; c < columns; c += kTile)
      for (auto row = r; row < std::min(rows, r + kTile); ++row)
        for (auto column = c; column < std::min(columns, c + kTile); ++column)
          y[row * columns + column] = x[column * x_step + row];
}

// The innermost loops transpose a matrix: those of the output read the input by columns.
bool is_transposition(const Walk<2>& way) {
  const auto depth = way.depth();
  return depth >= 2 && way.steps(depth - 1)[0] == 1 && way.steps(depth - 2)[1] == 1;
}

void transpose_matrices(const Walk<2>& way, const Mover& move) {
  const auto depth = way.depth();
  Walk<2> outer;
  for (std::size_t loop = 0; loop + 2 < depth; ++loop)
    outer.add(way.iterations(loop), way.steps(loop));
  const auto rows = static_cast<std::size_t>(way.iterations(depth - 2));
  const auto columns = static_cast<std::size_t>(way.iterations(depth - 1));
  const auto x_step = way.steps(depth - 1)[1];
  const auto* x = reinterpret_cast<const std::uint32_t*>(move.from);
  auto* y = reinterpret_cast<std::uint32_t*>(move.to);
  walk(outer, [&](const auto& at, std::size_t n, const auto& step) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(n); ++i)
      turn_tiles(x + at[1] + i * step[1], y + at[0] + i * step[0], rows, columns,
                 static_cast<std::size_t>(x_step));
  });
}

Status run_transpose(const Call& call) {
  const auto order = call.attributes().get_or<std::vector<std::int64_t>>("order", {});
  const auto x_steps = steps_of(call.shape(0));
  const auto& shape = call.out_shape();
  const auto y_steps = steps_of(shape);
  Walk<2> way;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    way.add(shape.dim(axis), {y_steps[axis], x_steps[static_cast<std::size_t>(order[axis])]});
  const auto move = mover_of(call.in(0), FERRY_TRY(call.out()));
  if (move.size == 4 && is_transposition(way)) {
    transpose_matrices(way, move);
    return {};
  }
  walk_parallel(way, [=](const auto& at, std::size_t n, const auto& step) {
    move(at[0], at[1], n, step[1]);
  });
  return {};
}

// Each part is a band in every row of the dimensions before the axis.
Status run_concat(const Call& call) {
  const auto& shape = call.out_shape();
  auto axis = call.attributes().get_or<std::int64_t>("axis", 0);
  if (axis < 0) axis += static_cast<std::int64_t>(shape.rank());
  std::size_t rows = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(axis); ++i) rows *= dim(shape, i);
  auto out = FERRY_TRY(call.out());
  if (rows == 0) return {};
  const auto pitch = out.bytes().size() / rows;
  auto* to = out.data();
  for (std::size_t i = 0; i < call.context.inputs(); ++i) {
    const auto band = call.in(i).bytes().size() / rows;
    const auto* from = call.in(i).data();
    if (band == 0) continue;
    for (std::size_t row = 0; row < rows; ++row)
      std::memcpy(to + row * pitch, from + row * band, band);
    to += band;
  }
  return {};
}

// The part of `whole` that begins at `begin` and has the shape `part`, beside that part.
Walk<2> way_of_part(const tensor::Shape& whole, const tensor::Shape& part) {
  const auto whole_steps = steps_of(whole);
  const auto part_steps = steps_of(part);
  Walk<2> way;
  for (std::size_t axis = 0; axis < part.rank(); ++axis)
    way.add(part.dim(axis), {part_steps[axis], whole_steps[axis]});
  return way;
}

std::int64_t offset_of(const Call& call, const tensor::Shape& whole) {
  const auto begin = call.attributes().get_or<std::vector<std::int64_t>>("begin", {});
  const auto steps = steps_of(whole);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < whole.rank(); ++axis) offset += begin[axis] * steps[axis];
  return offset;
}

Status run_slice(const Call& call) {
  const auto way = way_of_part(call.shape(0), call.out_shape());
  const auto offset = offset_of(call, call.shape(0));
  const auto move = mover_of(call.in(0), FERRY_TRY(call.out()));
  walk_parallel(way, [=](const auto& at, std::size_t n, const auto& step) {
    move(at[0], offset + at[1], n, step[1]);
  });
  return {};
}

// Zeros up to each piece of the part, and after the last one: every element is written once.
Status run_slice_grad(const Call& call) {
  const auto way = way_of_part(call.out_shape(), call.shape(0));
  const auto offset = offset_of(call, call.out_shape());
  auto out = FERRY_TRY(call.out());
  const auto size = tensor::size_of(out.type());
  auto* next = out.data();
  const auto put = [&](std::int64_t at, std::int64_t from, std::size_t n) {
    auto* to = out.data() + static_cast<std::size_t>(offset + at) * size;
    std::memset(next, 0, static_cast<std::size_t>(to - next));
    std::memcpy(to, call.in(0).data() + static_cast<std::size_t>(from) * size, n * size);
    next = to + n * size;
  };
  walk(way, [&](const auto& at, std::size_t n, const auto& step) {
    if (step[1] == 1 || n == 1) return put(at[1], at[0], n);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(n); ++i)
      put(at[1] + i * step[1], at[0] + i, 1);
  });
  if (const auto rest = out.data() + out.bytes().size() - next; rest > 0)
    std::memset(next, 0, static_cast<std::size_t>(rest));
  return {};
}

}  // namespace

NamedKernels shape_kernels() {
  return {{"Transpose", shaped(run_transpose)},
          {"Concat", shaped(run_concat)},
          {"Slice", shaped(run_slice)},
          {"SliceGrad", shaped(run_slice_grad)}};
}

}  // namespace ferry::ops
