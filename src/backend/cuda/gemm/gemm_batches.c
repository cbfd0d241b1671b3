// Sizes and batch axes of a GEMM when shapes are set.
#include "backend/cuda/gemm/gemm_batches.h"

carnot_status* carnot_cuda_gemm_sizes_of(const carnot_gemm_problem* problem,
                                         const carnot_operand* a, const carnot_operand* b,
                                         const carnot_operand* y, carnot_gemm_sizes* out) {
  int64_t depth = carnot_gemm_sizes_of(problem, a->rank, a->dims, b->rank, b->dims, out);
  CARNOT_CHECK(depth == out->k && y->rank >= out->y_axes, INVALID_ARGUMENT,
               "a GEMM over %lld and %lld elements", (long long)out->k, (long long)depth);
  int64_t count = 1;
  for (int i = 0; i < out->y_axes; i++) count *= y->dims[y->rank - 1 - i];
  CARNOT_CHECK(count == out->m * out->n, INVALID_ARGUMENT, "the result has another size");
  return NULL;
}

carnot_status* carnot_cuda_gemm_batches_of(const carnot_operand* a, const carnot_operand* b,
                                           const carnot_operand* y, const carnot_gemm_sizes* sizes,
                                           carnot_cuda_gemm_batches* out) {
  *out = (carnot_cuda_gemm_batches){.rank = 0};
  int rank = y->rank - sizes->y_axes;
  for (int d = 0; d < rank; d++) {
    int at_a = d - rank + a->rank - sizes->a_axes, at_b = d - rank + b->rank - sizes->b_axes;
    int64_t sa = at_a >= 0 && a->dims[at_a] > 1 ? a->strides[at_a] : 0;
    int64_t sb = at_b >= 0 && b->dims[at_b] > 1 ? b->strides[at_b] : 0;
    CARNOT_CHECK((at_a < 0 || a->dims[at_a] == 1 || a->dims[at_a] == y->dims[d]) &&
                     (at_b < 0 || b->dims[at_b] == 1 || b->dims[at_b] == y->dims[d]),
                 INVALID_ARGUMENT, "batch axis %d does not broadcast", d);
    if (y->dims[d] == 1) continue;
    int r = out->rank;
    bool joins = r && out->a[r - 1] == sa * y->dims[d] && out->b[r - 1] == sb * y->dims[d] &&
                 out->c[r - 1] == y->strides[d] * y->dims[d];
    if (!joins) out->dims[out->rank++] = y->dims[d];
    if (joins) out->dims[r - 1] *= y->dims[d];
    r = out->rank - 1;
    out->a[r] = sa, out->b[r] = sb, out->c[r] = y->strides[d];
  }
  return NULL;
}
