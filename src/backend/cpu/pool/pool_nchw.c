// Max and average pooling over row-major float32 operands: of three spatial dimensions and more,
// and of fewer where the input lies so.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/pool/pool.h"

enum { kLeastRank = 3, kLeastSpatial = 1, kAlwaysRank = 5 };

static const char* reject_op(carnot_problem* problem, carnot_op op, char* reason, size_t size) {
  carnot_pool_params p;
  const char* why =
      carnot_pool_params_read(problem, op, kLeastRank, CARNOT_MAX_RANK, &p, reason, size);
  if (why) return why;
  if (problem->inputs[0].format.dtype != CARNOT_DTYPE_F32)
    return carnot_because(reason, size, "the input is %s, takes float32",
                          carnot_dtype_name(problem->inputs[0].format.dtype));
  if (problem->inputs[0].rank < kAlwaysRank &&
      problem->inputs[0].format.layout != CARNOT_LAYOUT_ROW_MAJOR)
    return "the input is not row-major";
  problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}
static const char* max_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_op(problem, CARNOT_OP_MAX_POOL, reason, size);
}
static const char* average_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_op(problem, CARNOT_OP_AVERAGE_POOL, reason, size);
}

static carnot_status* pool_nchw_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_pool_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_pool_params));
  return carnot_sliding_window_check(&((const carnot_pool_params*)step->params)->window,
                                     kLeastSpatial, CARNOT_SLIDING_WINDOW_RANK);
}

typedef struct pool_nchw_state {
  carnot_pool_nchw_f32 pool;
  int64_t rows_per_part, row_count;
  int64_t lines;  // floats of a part's lines
} pool_nchw_state;

static bool is_dense(const carnot_operand* t) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, t->rank, t->dims, strides);
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] > 1 && t->strides[d] != strides[d]) return false;
  return true;
}

static carnot_status* pool_nchw_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  pool_nchw_state* state = memory;
  const carnot_pool_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_sliding_window w = p->window;
  int rank = w.rank;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   x->rank == rank + 2 && y->rank == x->rank && x->dims[0] == y->dims[0] &&
                   x->dims[1] == y->dims[1] && is_dense(x) && is_dense(y),
               INVALID_ARGUMENT, "operands of rank %d and %d do not fit a window of %d dimensions",
               x->rank, y->rank, rank);
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  state->pool = (carnot_pool_nchw_f32){.rank = rank, .include_padding = p->include_padding != 0};
  for (int d = 0; d < rank; d++)
    state->pool.axes[d] = (carnot_pool_axis){.in = x->dims[d + 2],
                                             .out = y->dims[d + 2],
                                             .kernel = w.kernel[d],
                                             .stride = w.strides[d],
                                             .dilation = w.dilations[d],
                                             .pad = w.begin[d],
                                             .pad_end = w.end[d]};
  state->row_count = carnot_dims_count(y->dims, y->rank - 1);
  int64_t taps = carnot_dims_count(w.kernel, rank - 1), width = x->dims[x->rank - 1];
  state->rows_per_part = carnot_rows_per_part(state->row_count, width * taps);
  state->lines = carnot_pool_nchw_lines(&state->pool.axes[rank - 1]);
  *out_workspace_bytes =
      (size_t)(carnot_ceildiv(state->row_count, state->rows_per_part) * state->lines) *
      sizeof(float);
  return NULL;
}

typedef struct pool_nchw_run {
  const pool_nchw_state* state;
  carnot_pool_nchw_f32 pool;
  carnot_max_pool_nchw_f32_fn* kernel;
  float* lines;
} pool_nchw_run;

static void pool_nchw_part(void* argument, int64_t part) {
  const pool_nchw_run* run = argument;
  int64_t row0 = part * run->state->rows_per_part,
          row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  run->kernel(&run->pool, row0, row1, run->lines + part * run->state->lines);
}

static carnot_status* pool_nchw_run_all(const carnot_step_view* step, void* memory,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  const pool_nchw_state* state = memory;
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(step->tactic->isa);
  bool max = step->region->nodes[0].op == CARNOT_OP_MAX_POOL;
  pool_nchw_run run = {.state = state,
                       .pool = state->pool,
                       .kernel = max ? kernels->max_pool_nchw_f32 : kernels->average_pool_nchw_f32,
                       .lines = workspace};
  run.pool.src = inputs[0].data, run.pool.dst = outputs[0].data;
  carnot_executor_parallel(executor, carnot_ceildiv(state->row_count, state->rows_per_part),
                           pool_nchw_part, &run);
  return NULL;
}

#define POOL_NCHW                                                 \
  .prepare = carnot_pool_prepare, .validate = pool_nchw_validate, \
  .configure = pool_nchw_configure, .run = pool_nchw_run_all
CARNOT_CPU_TACTICS(max_pool_nchw_f32, .anchor = CARNOT_OP_MAX_POOL, .reject = max_reject,
                   POOL_NCHW);
CARNOT_CPU_TACTICS(average_pool_nchw_f32, .anchor = CARNOT_OP_AVERAGE_POOL,
                   .reject = average_reject, POOL_NCHW);
