// Cross-covariance attention of 16-bit floats: some blocks for each head.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/attention/cross_covariance_params.h"

typedef struct cross_state {
  CUfunction function;
  carnot_cuda_cross_covariance_params params;
  size_t shared_bytes;
} cross_state;
_Static_assert(sizeof(cross_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const struct {
  int size;
  carnot_cuda_kernel_id kernels[CARNOT_DTYPE_COUNT];
} kForms[] = {
#define FORM(size) {size, {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, cross_covariance_##size)}},
    CARNOT_CUDA_CROSS_SIZES(FORM)
#undef FORM
};
enum { kFormCount = sizeof(kForms) / sizeof(kForms[0]) };

// The form for heads of |size| elements; kFormCount: none.
static int form_of(int64_t size) {
  int form = 0;
  while (form < kFormCount && kForms[form].size < size) form++;
  return form;
}

// Of a block (cross_covariance.cuh: run).
static size_t shared_bytes(int size) {
  const int parts = CARNOT_CUDA_CROSS_THREADS / (size / 4 * (size / 4));
  return 4 * (size_t)(CARNOT_CUDA_CROSS_POSITIONS * 2 * size + parts * size * (size + 4) +
                      CARNOT_CUDA_CROSS_THREADS);
}

static const char* cross_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_CROSS_COVARIANCE)) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  carnot_cuda_want_row_major(problem);
  if (!carnot_cuda_is_half(x->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(x->format.dtype));
  if (form_of(x->dims[4]) == kFormCount)
    return carnot_cuda_reject_reason(reason, size, "heads of %lld elements, takes up to %d",
                                     (long long)x->dims[4], kForms[kFormCount - 1].size);
  return NULL;
}

static carnot_status* cross_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *t = &inputs[1], *y = &outputs[0];
  const carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  const int64_t count = carnot_dims_count(x->dims, x->rank);
  CARNOT_CHECK(x->rank == 5 && x->dims[2] == 3 && carnot_cuda_is_half(x->format.dtype) &&
                   t->format.dtype == x->format.dtype && y->format.dtype == x->format.dtype &&
                   carnot_dims_count(t->dims, t->rank) == x->dims[3] &&
                   3 * carnot_dims_count(y->dims, y->rank) == count && x->dims[1] <= INT32_MAX &&
                   x->dims[0] * x->dims[3] <= INT32_MAX,
               INVALID_ARGUMENT, "no queries, keys and values of %lld elements", (long long)count);
  const int form = form_of(x->dims[4]);
  CARNOT_CHECK(form < kFormCount, UNSUPPORTED, "heads of %lld elements", (long long)x->dims[4]);
  cross_state* s = state;
  *s = (cross_state){.shared_bytes = shared_bytes(kForms[form].size),
                     .params = {.batch = (int)x->dims[0],
                                .positions = (int)x->dims[1],
                                .heads = (int)x->dims[3],
                                .size = (int)x->dims[4],
                                .epsilon = (float)carnot_attr_float(a.row, a.attrs, "epsilon")}};
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kForms[form].kernels, x->format.dtype, &s->function));
  // Each block computes all weights of its head: more of them only where multiprocessors are idle.
  const int64_t heads = carnot_max_i64(1, x->dims[0] * x->dims[3]),
                results = carnot_ceildiv(x->dims[1] * carnot_ceildiv(x->dims[4], 8),
                                         CARNOT_CUDA_CROSS_THREADS),
                room = cuda->base.multiprocessor_count / heads;
  s->params.blocks = (int)carnot_max_i64(1, carnot_min_i64(results, room));
  return carnot_cuda_allow_shared(cuda, s->function);
}

static carnot_status* cross_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kNoCluster[3] = {1, 1, 1};
  cross_state* s = state;
  s->params.x = inputs[0].data, s->params.temperature = inputs[1].data;
  s->params.y = outputs[0].data;
  const int64_t grid[3] = {(int64_t)s->params.batch * s->params.heads * s->params.blocks, 1, 1};
  if (!grid[0] || !s->params.positions) return NULL;
  return carnot_cuda_launch_clusters(step, s->function, grid, CARNOT_CUDA_CROSS_THREADS, kNoCluster,
                                     s->shared_bytes, &s->params);
}

const carnot_tactic carnot_cuda_cross_covariance = {.name = "cuda_cross_covariance",
                                                    .anchor = CARNOT_OP_CROSS_COVARIANCE,
                                                    .numerics = CARNOT_NUMERICS_HALF,
                                                    .device = true,
                                                    .reject = cross_reject,
                                                    .configure = cross_configure,
                                                    .run = cross_run};
