#pragma once

#include <cstddef>

namespace ferry::math {

// Sums in double precision, in an order that depends on n alone: the same bits on every machine.
double total(const float* x, std::size_t n);
double dot(const float* a, const float* b, std::size_t n);
// The largest; minus infinity if there is none.
float largest(const float* x, std::size_t n);

// For sums over columns: sums[i] += x[i]; most[i] = the larger of most[i] and x[i].
void add_to(const float* x, double* sums, std::size_t n);
void raise_to(const float* x, double* most, std::size_t n);
// y[i] = sums[i] * factor
void store(const double* sums, double factor, float* y, std::size_t n);

}  // namespace ferry::math
