// The products inside attention, by type; private to its sources.
#ifndef CARNOT_KERNEL_CPU_ATTENTION_PRODUCTS_H_
#define CARNOT_KERNEL_CPU_ATTENTION_PRODUCTS_H_

#include "kernel/cpu/attention_f32.h"
#include "kernel/cpu/gemm_loop_f32.h"

typedef struct attention_products {
  carnot_gemm_f32_fn* gemm;
  carnot_gemm_pack_f32_fn* pack;  // as |gemm| wants it, in no more room than k1n16 f32 takes
} attention_products;

typedef void attention_by_fn(const carnot_attention_f32* p, const attention_products* products,
                             int64_t q0, int64_t q1);
attention_by_fn GEMM_LOOP(attention_by);

#endif
