// The table of one target: every operation's body and the Kernels that names them.
// Included once by each file of cpu/isa, with LS_TARGET set.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/attention_body.h"
#include "kernels/cpu/elementwise_body.h"
#include "kernels/cpu/matmul_body.h"

namespace lineshaft::kernels::LS_TARGET {

const Kernels& table() {
  static constexpr Kernels kTable = {
      .isa = LS_TARGET_ISA,
      .quantise_row_1 = quantise_row<1>,
      .quantise_row_2 = quantise_row<2>,
      .matmul = matmul,
      .rms_norm = rms_norm,
      .add = add_rows,
      .scale = scale_row,
      .silu_mul = silu_mul,
      .gelu_tanh_mul = gelu_tanh_mul,
      .rope = rope,
      .store_kv = store_kv,
      .attention = attention,
      .attention_shared = attention_shared,
      .log_sum_exp = log_sum_exp,
      .argmax = argmax,
  };
  return kTable;
}

}  // namespace lineshaft::kernels::LS_TARGET
