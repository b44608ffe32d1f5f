// Activations: the arrays that the stages of a step hand to each other, sized once.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_spec.h"
#include "kernels/backend.h"
#include "model/buffer.h"

namespace lineshaft::model {

// Rows of one width as matmul reads them: f32 and, in the int8 profiles, quantised to one or two
// digits.
struct RowBuffer {
  RowBuffer() = default;
  RowBuffer(int64_t rows, int64_t row_width, int quantised_digits)
      : width(row_width),
        digits(quantised_digits),
        f32(rows * row_width),
        q1(digits == 1 ? rows * row_width / kGroup : 0),
        q2(digits == 2 ? rows * row_width / kGroup : 0) {}

  static constexpr int64_t kGroup = 32;  // elements of a QuantisedBlock
  float* row(int64_t r) { return f32.get() + r * width; }

  // Elements [begin, begin + count) of row r, whole groups.
  void quantise(const kernels::Kernels& kernels, int64_t r, int64_t begin, int64_t count) {
    const int64_t block = (r * width + begin) / kGroup;
    if (digits == 1) {
      kernels.quantise_row_1(row(r) + begin, count, q1.get() + block);
    } else {
      kernels.quantise_row_2(row(r) + begin, count, q2.get() + block);
    }
  }

  static int64_t bytes(int64_t rows, int64_t row_width, int quantised_digits) {
    const int64_t blocks = rows * row_width / kGroup;
    size_t bytes = Buffer<float>::bytes_of(rows * row_width);
    if (quantised_digits == 1) bytes += Buffer<kernels::QuantisedBlock<1>>::bytes_of(blocks);
    if (quantised_digits == 2) bytes += Buffer<kernels::QuantisedBlock<2>>::bytes_of(blocks);
    return static_cast<int64_t>(bytes);
  }

  int64_t width = 0;
  int digits = 0;              // 0: f32 only
  Buffer<float> f32;
  Buffer<kernels::QuantisedBlock<1>> q1;
  Buffer<kernels::QuantisedBlock<2>> q2;
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
  Residual(int64_t rows, int64_t hidden, int digits)
      : x(rows * hidden), scratch(hidden), normed(rows, hidden, digits) {}

  Buffer<float> x;
  Buffer<float> scratch;   // one row
  RowBuffer normed;
};

}  // namespace lineshaft::model
