// CostModel: how many milliseconds a step will take, from the worker's measured StepCost,
// corrected by the steps that have run. Reads no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "core/step_plan.h"

namespace lineshaft::policy {

// What the cost of a step depends on.
struct StepShape {
  int64_t rows = 0;
  int64_t samples = 0;     // rows that need logits
  int64_t pairs = 0;       // (query row, attended position)
  bool has_prompt = false;  // else every row is a decode row

  // `count` rows from position `first` on.
  void add(int32_t first, int32_t count, bool sample);
};

class CostModel {
 public:
  explicit CostModel(const StepCost& cost) : cost_(cost) {}

  double predict_ms(const StepShape& shape) const;

  // What a chunk of a prompt adds to a step that runs anyway.
  double chunk_ms(int32_t first, int32_t count, bool sample) const;

  // The largest count in [0, rows_max] with chunk_ms(first, count, false) <= ms.
  int32_t rows_within(double ms, int32_t first, int32_t rows_max) const;

  // A step of this shape took this long. The correction is the median of the last kWindow ratios
  // of measured to predicted, kept apart for steps with and without prompt rows, so that one slow
  // step (another process, a page fault) moves nothing.
  void observe(const StepShape& shape, Duration measured);

  double correction(bool has_prompt) const { return corrections_[has_prompt ? 1 : 0]; }

 private:
  static constexpr size_t kWindow = 31;
  // A table that is wrong by more than this is not a table of this machine.
  static constexpr double kCorrectionMax = 20.0;

  double raw_ms(const StepShape& shape) const;

  StepCost cost_;
  // Ratios of the last steps, by has_prompt: a ring of `count` values.
  struct Ratios {
    std::array<double, kWindow> values{};
    size_t count = 0;
    size_t next = 0;
  };

  Ratios ratios_[2];
  double corrections_[2] = {1.0, 1.0};
};

}  // namespace lineshaft::policy
