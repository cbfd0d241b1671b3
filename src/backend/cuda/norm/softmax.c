// Softmax and LogSoftmax.
#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/norm/softmax_params.h"
#include "tactic/problem/norm.h"

static const carnot_cuda_kernel_id kSoftmax[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REAL_TYPES(CARNOT_CUDA_BY_TYPE, softmax)};

// By the elements that a lane holds.
static const carnot_cuda_kernel_id kSoftmaxWarp[2][CARNOT_DTYPE_COUNT] = {
    {CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, softmax_warp_4)},
    {CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, softmax_warp_16)}};
// Along an axis that is not the last.
static const carnot_cuda_kernel_id kSoftmaxColumns[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, softmax_columns)};
enum { kColumns = CARNOT_CUDA_SOFTMAX_COLUMNS, kMostColumnThreads = 1024 };
enum { kShortRow = 32 * 4, kMostOfWarp = 32 * 16, kRowsOfBlock = 4 };

typedef struct softmax_state {
  CUfunction function;
  bool by_warp, by_columns;
  carnot_cuda_softmax_params params;
} softmax_state;

static const char* softmax_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  if (problem->region->node_count != 1 || !carnot_norm_read(problem->region, &norm) ||
      !carnot_norm_is_softmax(&norm))
    return "";
  carnot_cuda_want_row_major(problem);
  return carnot_cuda_not_real(&problem->inputs[0], reason, size);
}

static carnot_status* softmax_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  carnot_norm_problem norm;
  carnot_norm_extents e;
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  CARNOT_CHECK(carnot_norm_read(step->region, &norm) && carnot_norm_is_softmax(&norm),
               INVALID_MODEL, "the step holds no softmax");
  CARNOT_TRY(carnot_norm_extents_of(&norm, x->rank, x->dims, &e));
  softmax_state* s = state;
  *s = (softmax_state){.params = {.rows = e.outer * e.inner,
                                  .size = e.size,
                                  .inner = e.inner,
                                  .stride = e.inner,
                                  .scale = 1,
                                  .log = norm.kind == CARNOT_NORM_LOG_SOFTMAX}};
  s->by_warp = e.inner == 1 && e.size <= kMostOfWarp && carnot_cuda_is_float(x->format.dtype);
  s->by_columns = e.inner >= kColumns && carnot_cuda_is_float(x->format.dtype);
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step),
                                s->by_warp      ? kSoftmaxWarp[e.size > kShortRow]
                                : s->by_columns ? kSoftmaxColumns
                                                : kSoftmax,
                                x->format.dtype, &s->function);
}

static carnot_status* softmax_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  softmax_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  const carnot_cuda_softmax_params* p = &s->params;
  const int64_t columns = p->inner ? p->rows / p->inner * carnot_ceildiv(p->inner, kColumns) : 0;
  const int64_t grid[3] = {s->by_warp      ? carnot_ceildiv(p->rows, kRowsOfBlock)
                           : s->by_columns ? columns
                                           : p->rows,
                           1, 1};
  unsigned threads = s->by_warp ? 32 * kRowsOfBlock : carnot_cuda_row_threads(p->size);
  if (s->by_columns)
    threads = (unsigned)carnot_min_i64(
        kMostColumnThreads, carnot_align_up((size_t)(p->size * kColumns), 32 * kColumns));
  return carnot_cuda_launch(step, s->function, grid, threads, &s->params);
}

const carnot_tactic carnot_cuda_softmax = {.name = "cuda_softmax",
                                           .anchor = CARNOT_OP_COUNT,
                                           .numerics = CARNOT_NUMERICS_EXACT,
                                           .device = true,
                                           .reject = softmax_reject,
                                           .configure = softmax_shape,
                                           .run = softmax_run};
