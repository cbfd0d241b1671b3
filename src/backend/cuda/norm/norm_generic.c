// Normalizations of mixed types, of scales of any broadcast, or by the statistics of the batch:
// generic kernels.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/norm/norm_generic_params.h"
#include "tactic/problem/norm.h"

// ---- normalization of types that differ, or by scales of any broadcast ----

static const char* norm_generic_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  if (!carnot_norm_read(problem->region, &norm) || carnot_norm_is_softmax(&norm)) return "";
  return carnot_cuda_generic_reject(problem, problem->region->nodes[0].op, 0, reason, size);
}

// Distances of |t| where it is broadcast to |x|.
static carnot_status* broadcast(const carnot_operand* t, const carnot_operand* x,
                                long long* out_strides) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  if (!t->format.dtype) return NULL;
  CARNOT_CHECK(t->rank <= x->rank, INVALID_ARGUMENT, "a parameter of rank %d", t->rank);
  long long stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    int to = d + x->rank - t->rank;
    CARNOT_CHECK(t->dims[d] == 1 || t->dims[d] == x->dims[to], INVALID_ARGUMENT,
                 "dimension %d of a parameter is %lld, the input's %lld", d, (long long)t->dims[d],
                 (long long)x->dims[to]);
    out_strides[to] = t->dims[d] == 1 ? 0 : stride;
    stride *= t->dims[d];
  }
  return NULL;
}

static carnot_status* norm_generic_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* state,
                                         size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *scale = carnot_cuda_optional(step, inputs, 1),
                       *bias = carnot_cuda_optional(step, inputs, 2);
  carnot_norm_problem norm;
  carnot_norm_extents e;
  CARNOT_CHECK(carnot_norm_read(step->region, &norm) && !carnot_norm_is_softmax(&norm),
               INVALID_MODEL, "the step holds no normalization");
  CARNOT_TRY(carnot_norm_extents_of(&norm, x->rank, x->dims, &e));
  CARNOT_CHECK(x->rank <= CARNOT_CUDA_RANK, INVALID_MODEL, "x of rank %d", x->rank);
  carnot_cuda_norm_generic_params p = {.rms = norm.kind == CARNOT_NORM_RMS,
                                       .per_element = carnot_norm_is_by_row(&norm),
                                       .size = e.size,
                                       .spatial = e.spatial,
                                       .channels = e.channels,
                                       .rank = x->rank,
                                       .epsilon = norm.epsilon};
  for (int d = 0; d < x->rank; d++) p.dims[d] = x->dims[d];
  if (p.per_element) {
    CARNOT_TRY(broadcast(scale, x, p.scale_s));
    CARNOT_TRY(broadcast(bias, x, p.bias_s));
  } else {
    CARNOT_TRY(carnot_cuda_expect(scale, "scale", p.channels));
    CARNOT_TRY(carnot_cuda_expect(bias, "the bias", p.channels));
  }
  int64_t count = carnot_cuda_count(x), groups = p.size ? count / p.size : 0;
  CARNOT_TRY(carnot_cuda_expect(x, "x", count));
  CARNOT_CHECK(outputs[0].format.dtype, INVALID_MODEL, "no result");
  for (uint32_t i = 0; i < 3; i++)
    CARNOT_TRY(
        carnot_cuda_expect(carnot_cuda_output(step, outputs, i), "a result", i ? groups : count));
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs,
                                       CARNOT_CUDA_KERNEL_generic_norm_any_type, groups, &p,
                                       sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_GENERIC_TACTIC(norm_generic, "cuda_generic_norm", CARNOT_OP_COUNT, norm_generic_reject,
                           norm_generic_shape);

// ---- batch normalization by the batch, or of types that differ ----

static carnot_status* batch_norm_generic_shape(const carnot_step_view* step,
                                               const carnot_operand* inputs,
                                               const carnot_operand* outputs, void* state,
                                               size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = carnot_cuda_output(step, outputs, 0);
  CARNOT_CHECK(step->input_count == 5 && x->rank >= 1 && y->format.dtype, INVALID_MODEL,
               "%u operands", step->input_count);
  carnot_cuda_batch_norm_generic_params p = {
      .images = x->dims[0],
      .channels = x->rank > 1 ? x->dims[1] : 1,
      .size = x->rank > 2 ? carnot_dims_count(x->dims + 2, x->rank - 2) : 1,
      .given = !carnot_cuda_attr(&a, "training_mode"),
      .epsilon = carnot_attr_float(a.row, a.attrs, "epsilon"),
      .momentum = carnot_attr_float(a.row, a.attrs, "momentum")};
  CARNOT_TRY(carnot_cuda_expect(x, "x", p.images * p.channels * p.size));
  CARNOT_TRY(carnot_cuda_expect(y, "the result", carnot_cuda_count(x)));
  for (uint32_t i = 1; i < 5; i++)
    CARNOT_TRY(carnot_cuda_expect(&inputs[i], "a parameter", p.channels));
  for (uint32_t i = 1; i < 3; i++)
    CARNOT_TRY(carnot_cuda_expect(carnot_cuda_output(step, outputs, i), "a statistic", p.channels));
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs,
                                       CARNOT_CUDA_KERNEL_generic_batch_norm_any_type, p.channels,
                                       &p, sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->blocks = true;
  return NULL;
}

CARNOT_CUDA_GENERIC_OP_TACTIC(batch_norm_generic, "cuda_generic_batch_norm", BATCH_NORM);
