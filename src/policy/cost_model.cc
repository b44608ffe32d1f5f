#include "policy/cost_model.h"

#include <algorithm>

namespace lineshaft::policy {

void StepShape::add(int32_t first, int32_t count, bool sample) {
  rows += count;
  samples += sample ? 1 : 0;
  // Row i attends i + 1 positions: the sum over [first, first + count).
  pairs += int64_t{count} * first + int64_t{count} * (int64_t{count} + 1) / 2;
}

double CostModel::raw_ms(const StepShape& shape) const {
  return cost_.base_ms + static_cast<double>(shape.rows) * cost_.row_ms +
         static_cast<double>(shape.samples) * cost_.sample_ms +
         static_cast<double>(shape.pairs) * cost_.pair_ms;
}

double CostModel::predict_ms(const StepShape& shape) const {
  return raw_ms(shape) * correction(shape.has_prompt);
}

double CostModel::chunk_ms(int32_t first, int32_t count, bool sample) const {
  StepShape shape;
  shape.add(first, count, sample);
  return (raw_ms(shape) - cost_.base_ms) * correction(true);
}

int32_t CostModel::rows_within(double ms, int32_t first, int32_t rows_max) const {
  int32_t low = 0;
  int32_t high = rows_max;
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    if (chunk_ms(first, middle, false) <= ms) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void CostModel::observe(const StepShape& shape, Duration measured) {
  const double expected = raw_ms(shape);
  if (expected <= 0.0 || measured.ns <= 0) return;
  const int kind = shape.has_prompt ? 1 : 0;
  Ratios& ratios = ratios_[kind];
  ratios.values[ratios.next] = measured.in_milliseconds() / expected;
  ratios.next = (ratios.next + 1) % kWindow;
  ratios.count = std::min(ratios.count + 1, kWindow);
  auto sorted = ratios.values;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((ratios.count - 1) / 2);
  std::nth_element(sorted.begin(), middle,
                   sorted.begin() + static_cast<std::ptrdiff_t>(ratios.count));
  corrections_[kind] = std::clamp(*middle, 1.0 / kCorrectionMax, kCorrectionMax);
}

}  // namespace lineshaft::policy
