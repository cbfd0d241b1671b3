// Max, average and Lp pooling over any layout.
#include "tactic/problem/pool.h"
#include "backend/cuda/common/sliding_window.h"

typedef struct pool_state {
  CUfunction function;
  carnot_cuda_sliding_window params;
  int64_t count;
} pool_state;
_Static_assert(sizeof(pool_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const carnot_cuda_kernel_id kPool[CARNOT_DTYPE_COUNT] = {CARNOT_CUDA_REAL_TYPES(
    CARNOT_CUDA_BY_TYPE, pool) CARNOT_CUDA_BY_TYPE(i8, I8, pool) CARNOT_CUDA_BY_TYPE(u8, U8, pool)};

static const carnot_cuda_kernel_id kPoolNhwc[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, pool_nhwc) CARNOT_CUDA_BY_TYPE(i8, I8, pool_nhwc)
        CARNOT_CUDA_BY_TYPE(u8, U8, pool_nhwc)};

static const char* pool_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_pool_problem pool;
  const char* why = carnot_pool_problem_read(problem, &pool, reason, size);
  if (why) return why;
  const carnot_operand_desc* x = &problem->inputs[0];
  bool bytes = pool.op == CARNOT_OP_MAX_POOL &&
               (x->format.dtype == CARNOT_DTYPE_I8 || x->format.dtype == CARNOT_DTYPE_U8);
  why = bytes ? NULL : carnot_cuda_not_real(x, reason, size);
  if (why) return why;
  if (x->rank > 5) return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5", x->rank);
  if (!pool.values) return "only the indices of the maxima are wanted";
  problem->outputs[0].format.layout = x->format.layout;
  if (problem->output_count > 1) carnot_cuda_want_row_major(problem);
  return NULL;
}

// Elements of a 16-byte vector of x's type; 0: no kernel reads vectors.
static int vector_elements(const carnot_operand* x) {
  return kPoolNhwc[x->format.dtype] ? 16 / carnot_cuda_bytes(x) : 0;
}

// 16-bit floats and bytes with contiguous channels, read by 16-byte vectors.
static bool takes_vectors(const carnot_operand* x, const carnot_operand* y,
                          const carnot_cuda_sliding_window* p) {
  int64_t bits = p->channels | p->x_n | p->y_n;
  for (int d = 0; d < 3; d++) bits |= p->x_s[d] | p->y_s[d];
  const int elements = vector_elements(x);
  return elements && p->x_c == 1 && p->y_c == 1 && bits % elements == 0 &&
         ((uintptr_t)x->data | (uintptr_t)y->data) % 16 == 0;
}

static carnot_status* pool_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, step->output_count));
  pool_state* s = state;
  *s = (pool_state){.count = carnot_dims_count(outputs[0].dims, outputs[0].rank)};
  CARNOT_CHECK(
      step->output_count < 2 || (outputs[1].format.dtype == CARNOT_DTYPE_I64 &&
                                 carnot_dims_count(outputs[1].dims, outputs[1].rank) == s->count),
      INVALID_ARGUMENT, "the indices of %lld maxima have another size or type",
      (long long)s->count);
  CARNOT_TRY(carnot_cuda_sliding_window_make(node, &inputs[0], NULL, &outputs[0], &s->params));
  CARNOT_CHECK(s->params.filters == s->params.channels, INVALID_ARGUMENT, "%lld channels give %lld",
               (long long)s->params.channels, (long long)s->params.filters);
  carnot_pool_problem pool;
  CARNOT_TRY(carnot_pool_problem_of_node(node, inputs[0].rank - 2, &pool));
  s->params.average = pool.op == CARNOT_OP_AVERAGE_POOL;
  s->params.count_padding = pool.include_padding;
  s->params.power = (int)pool.power;
  s->params.column_major = step->output_count > 1 && pool.column_major;
  bool vectors = !s->params.power && step->output_count < 2 &&
                 takes_vectors(&inputs[0], &outputs[0], &s->params);
  if (vectors) s->count /= vector_elements(&inputs[0]);
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), vectors ? kPoolNhwc : kPool,
                                inputs[0].format.dtype, &s->function);
}

static carnot_status* pool_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  pool_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  s->params.indices = step->output_count > 1 ? outputs[1].data : NULL;
  return carnot_cuda_launch_threads(step, s->function, s->count, &s->params);
}

const carnot_tactic carnot_cuda_pool = {.name = "cuda_pool",
                                        .anchor = CARNOT_OP_COUNT,
                                        .numerics = CARNOT_NUMERICS_EXACT,
                                        .device = true,
                                        .strided_outputs = true,
                                        .pitched_inputs = 1,
                                        .reject = pool_reject,
                                        .configure = pool_configure,
                                        .run = pool_run};
