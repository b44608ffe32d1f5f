// Activations: the arrays that the stages of a step hand to each other, sized once.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_spec.h"
#include "kernels/backend.h"
#include "model/buffer.h"

namespace lineshaft::model {

// Rows of one width as matmul reads them: f32 and, in the int8 profile, quantised.
struct RowBuffer {
  RowBuffer() = default;
  RowBuffer(int64_t rows, int64_t row_width)
      : width(row_width), f32(rows * row_width), q8(rows * row_width / kGroup) {}

  static constexpr int64_t kGroup = 32;  // elements of a QuantisedBlock
  float* row(int64_t r) { return f32.get() + r * width; }

  // Elements [begin, begin + count) of row r, whole groups.
  void quantise(const kernels::Kernels& kernels, int64_t r, int64_t begin, int64_t count) {
    kernels.quantise_row(row(r) + begin, count, q8.get() + (r * width + begin) / kGroup);
  }

  static int64_t bytes(int64_t rows, int64_t row_width) {
    return static_cast<int64_t>(
        Buffer<float>::bytes_of(rows * row_width) +
        Buffer<kernels::QuantisedBlock>::bytes_of(rows * row_width / kGroup));
  }

  int64_t width = 0;
  Buffer<float> f32;
  Buffer<kernels::QuantisedBlock> q8;
};

// Rows that a matrix product writes.
struct ProductBuffer {
  ProductBuffer() = default;
  ProductBuffer(int64_t rows, int64_t row_width) : width(row_width), f32(rows * row_width) {}

  float* row(int64_t r) { return f32.get() + r * width; }
  static int64_t bytes(int64_t rows, int64_t row_width) {
    return static_cast<int64_t>(Buffer<float>::bytes_of(rows * row_width));
  }

  int64_t width = 0;
  Buffer<float> f32;
};

// The residual stream of some rows and its normed form. In a large step the team shares one set
// and each rank has its rows; in a small step each rank has a set of its own and does all rows,
// which costs less than meeting at a barrier.
struct Residual {
  Residual() = default;
  Residual(int64_t rows, int64_t hidden)
      : x(rows * hidden), scratch(hidden), normed(rows, hidden) {}

  Buffer<float> x;
  Buffer<float> scratch;   // one row
  RowBuffer normed;
};

}  // namespace lineshaft::model
