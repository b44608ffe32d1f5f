// The table of one target: every operation's body and the Kernels that names them.
// Included once by each file of cpu/isa, with LS_TARGET set.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/attention_body.h"
#include "kernels/cpu/elementwise_body.h"
#if __has_include("kernels/cpu/matmul_body.h")
#include "kernels/cpu/matmul_body.h"
#define LS_MATMUL quantise_row, matmul
#else
#define LS_MATMUL nullptr, nullptr
#endif

namespace lineshaft::kernels::LS_TARGET {

const Kernels& table() {
  static constexpr Kernels kTable = {
      LS_TARGET_ISA, LS_MATMUL, rms_norm, add_rows,  scale_row,   silu_mul, gelu_tanh_mul, rope,
      store_kv,      attention, log_sum_exp, argmax,
  };
  return kTable;
}

}  // namespace lineshaft::kernels::LS_TARGET
