// Gather along one axis and GatherND.
#include "backend/cuda/copy/strided_copy.h"
#include "kernel/cuda/gather/gather_params.h"

static const carnot_cuda_kernel_id kGather[] = CARNOT_CUDA_BY_BYTES(gather);
static const carnot_cuda_kernel_id kGatherNd[] = CARNOT_CUDA_BY_BYTES(gather_nd);

// ---- gather ----

typedef struct gather_state {
  CUfunction function;
  carnot_cuda_gather_params params;
  int64_t count;
} gather_state;

static const char* gather_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_GATHER)) return "";
  carnot_cuda_want_row_major(problem);
  carnot_dtype index = problem->inputs[1].format.dtype;
  if (index != CARNOT_DTYPE_I32 && index != CARNOT_DTYPE_I64)
    return "the indices are no int32 or int64";
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* gather_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, &outputs[0]));
  CARNOT_TRY(carnot_cuda_on_device(&inputs[1], 1));
  const carnot_plan_node* node = &step->region->nodes[0];
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis");
  if (axis < 0) axis += x->rank;
  CARNOT_CHECK(axis >= 0 && axis < x->rank && carnot_dtype_is_integer(inputs[1].format.dtype),
               INVALID_MODEL, "axis %lld of rank %d", (long long)axis, x->rank);
  gather_state* s = state;
  *s = (gather_state){
      .params = {.outer = carnot_dims_count(x->dims, (int)axis),
                 .count = carnot_dims_count(inputs[1].dims, inputs[1].rank),
                 .inner = carnot_dims_count(x->dims + axis + 1, x->rank - (int)axis - 1),
                 .size = x->dims[axis],
                 .index_bytes = carnot_cuda_bytes(&inputs[1])}};
  int bytes = carnot_cuda_bytes(x);
  CARNOT_CHECK(s->params.outer * s->params.count * s->params.inner ==
                   carnot_dims_count(outputs[0].dims, outputs[0].rank),
               INVALID_ARGUMENT, "the result of a gather has another size");
  bool aligned = (uintptr_t)x->data % 16 == 0 && (uintptr_t)outputs[0].data % 16 == 0;
  while (aligned && bytes < 16 && s->params.inner % 2 == 0) s->params.inner /= 2, bytes *= 2;
  s->count = s->params.outer * s->params.count * s->params.inner;
  return carnot_cuda_kernel(carnot_cuda_of_step(step), kGather[bytes], &s->function);
}

static carnot_status* gather_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  gather_state* s = state;
  s->params.x = inputs[0].data, s->params.index = inputs[1].data, s->params.y = outputs[0].data;
  return carnot_cuda_launch_threads(step, s->function, s->count, &s->params);
}

const carnot_tactic carnot_cuda_gather = {.name = "cuda_gather",
                                          .anchor = CARNOT_OP_GATHER,
                                          .numerics = CARNOT_NUMERICS_EXACT,
                                          .device = true,
                                          .reject = gather_reject,
                                          .configure = gather_shape,
                                          .run = gather_run};

// ---- gather by several indices ----

typedef struct gather_nd_state {
  CUfunction function;
  carnot_cuda_gather_nd_params params;
} gather_nd_state;

static const char* gather_nd_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_GATHER_ND)) return "";
  carnot_cuda_want_row_major(problem);
  const carnot_operand_desc* index = &problem->inputs[1];
  if (index->format.dtype != CARNOT_DTYPE_I64 || index->rank < 1) return "the indices are no int64";
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* gather_nd_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *index = &inputs[1], *y = &outputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, y));
  CARNOT_TRY(carnot_cuda_on_device(index, 1));
  int64_t batches = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "batch_dims");
  int64_t depth = index->rank > 0 ? index->dims[index->rank - 1] : 0;
  CARNOT_CHECK(index->format.dtype == CARNOT_DTYPE_I64 && batches >= 0 && batches < index->rank &&
                   depth >= 0 && depth <= CARNOT_CUDA_RANK && batches + depth <= x->rank,
               INVALID_MODEL, "%lld indices of rank %d behind %lld batches", (long long)depth,
               x->rank, (long long)batches);
  int first = (int)batches, last = (int)(batches + depth);
  gather_nd_state* s = state;
  *s = (gather_nd_state){
      .params = {.count = carnot_dims_count(y->dims, y->rank),
                 .queries = carnot_dims_count(index->dims + first, index->rank - 1 - first),
                 .inner = carnot_dims_count(x->dims + last, x->rank - last),
                 .batch = carnot_dims_count(x->dims + first, x->rank - first),
                 .depth = (int)depth}};
  for (int k = 0; k < (int)depth; k++) s->params.dims[k] = x->dims[first + k];
  int64_t all = carnot_dims_count(index->dims, index->rank - 1);
  CARNOT_CHECK(all * s->params.inner == s->params.count &&
                   carnot_dims_count(x->dims, first) * s->params.queries == all,
               INVALID_ARGUMENT, "the result of a gather has another size");
  return carnot_cuda_kernel(carnot_cuda_of_step(step), kGatherNd[carnot_cuda_bytes(x)],
                            &s->function);
}

static carnot_status* gather_nd_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  gather_nd_state* s = state;
  s->params.x = inputs[0].data, s->params.index = inputs[1].data, s->params.y = outputs[0].data;
  return carnot_cuda_launch_threads(step, s->function, s->params.count, &s->params);
}

const carnot_tactic carnot_cuda_gather_nd = {.name = "cuda_gather_nd",
                                             .anchor = CARNOT_OP_GATHER_ND,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .reject = gather_nd_reject,
                                             .configure = gather_nd_shape,
                                             .run = gather_nd_run};
