// Attention with a cache on the CPU: the sizes of a step and where its parts lie in the workspace.
#ifndef CARNOT_BACKEND_CPU_ATTENTION_CACHED_ATTENTION_H_
#define CARNOT_BACKEND_CPU_ATTENTION_CACHED_ATTENTION_H_

#include "backend/cpu/common/cpu.h"
#include "tactic/problem/cached_attention.h"

// Head h, row s of sample b begins at first + b * batch + h * head + s * row.
typedef struct carnot_head_strides {
  int64_t first, batch, head, row;
} carnot_head_strides;

typedef struct carnot_cached_attention_sizes {
  int64_t batch, rows;         // queries of a sample
  int64_t fresh, past, total;  // keys: new ones, before them (the capacity of a cache), in all
  carnot_head_strides q, k, v, y;
  bool joins_k, joins_v;  // keys or values are gathered as [batch, kv_heads, total, size]
  bool by_blocks;         // many queries: tiles of them against packed keys and values
  int64_t mask_strides[3], mask_length;
  int64_t blocks;                         // of keys, for few queries
  int64_t rows_per_part, parts_per_head;  // for many
  // Floats from the start of the workspace.
  int64_t q_at, k_at, v_at, mask_at, parts_at;
} carnot_cached_attention_sizes;

// configure: the sizes of the operands. INVALID_ARGUMENT where they do not fit one another.
carnot_status* carnot_cached_attention_sizes_make(int threads,
                                                  const carnot_cached_attention_params* params,
                                                  const carnot_operand* inputs,
                                                  const carnot_operand* outputs,
                                                  carnot_cached_attention_sizes* out,
                                                  int64_t* out_workspace_floats) CARNOT_MUST_USE;

// A run of the step.
typedef struct carnot_cached_attention_run {
  const carnot_cpu_kernels* kernels;
  const carnot_cached_attention_params* p;
  const carnot_cached_attention_sizes* s;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} carnot_cached_attention_run;

// Queries, and where keys and values are joined or rotated those, as the kernels read them.
const float* carnot_cached_queries(const carnot_cached_attention_run* run, int64_t b, int64_t head,
                                   int64_t* out_ld);
const float* carnot_cached_rows(const carnot_cached_attention_run* run, bool values, int64_t b,
                                int64_t kv_head, int64_t* out_ld);
// Checks lengths, places and positions, which are values; then gathers and rotates.
carnot_status* carnot_cached_attention_check_values(const carnot_cached_attention_run* run)
    CARNOT_MUST_USE;
void carnot_cached_attention_join(const carnot_cached_attention_run* run,
                                  carnot_executor* executor);

// Keys that sample |b| has, and the place of its first query among them.
static inline int64_t carnot_cached_length(const carnot_cached_attention_run* run, int64_t b) {
  return run->p->lengths < 0 ? run->s->total
                             : ((const int64_t*)run->inputs[run->p->lengths].data)[b];
}
static inline int64_t carnot_cached_offset(const carnot_cached_attention_run* run, int64_t b) {
  if (run->p->lengths >= 0) return carnot_cached_length(run, b) - run->s->rows;
  return run->p->starts_behind ? run->s->past : 0;
}

#endif  // CARNOT_BACKEND_CPU_ATTENTION_CACHED_ATTENTION_H_
