// Linear recurrences along one axis.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/recurrent/linear_scan_params.h"

typedef struct scan_state {
  CUfunction function;
  carnot_cuda_linear_scan_params params;
} scan_state;
_Static_assert(sizeof(scan_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const carnot_cuda_kernel_id kScan[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, linear_scan)};

static const char* scan_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_LINEAR_SCAN)) return "";
  carnot_cuda_want_row_major(problem);
  return carnot_cuda_not_float(&problem->inputs[0], reason, size);
}

static carnot_status* scan_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *b = &inputs[1], *y = &outputs[0];
  int axis;
  CARNOT_TRY(carnot_cuda_on_device(inputs, 3));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  CARNOT_TRY(carnot_cuda_axis(step, "axis", b->rank, &axis));
  const int64_t steps = b->dims[axis],
                inner = carnot_dims_count(b->dims + axis + 1, b->rank - axis - 1),
                lanes = carnot_dims_count(b->dims, axis) * inner,
                counts[] = {steps * lanes, steps * lanes, lanes};
  for (int i = 0; i < 3; i++)
    CARNOT_CHECK(inputs[i].format.dtype == y->format.dtype &&
                     carnot_dims_count(inputs[i].dims, inputs[i].rank) == counts[i],
                 INVALID_ARGUMENT, "operand %d of a recurrence has %lld elements, must have %lld",
                 i, (long long)carnot_dims_count(inputs[i].dims, inputs[i].rank),
                 (long long)counts[i]);
  CARNOT_CHECK(carnot_dims_count(y->dims, y->rank) == counts[0] && steps <= INT32_MAX,
               INVALID_ARGUMENT, "a result of other than %lld elements", (long long)counts[0]);
  scan_state* s = state;
  *s = (scan_state){.params = {.lanes = lanes, .inner = inner, .steps = (int)steps}};
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kScan, y->format.dtype, &s->function);
}

static carnot_status* scan_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  scan_state* s = state;
  s->params.a = inputs[0].data, s->params.b = inputs[1].data, s->params.initial = inputs[2].data;
  s->params.y = outputs[0].data;
  return carnot_cuda_launch_threads(step, s->function, s->params.lanes, &s->params);
}

const carnot_tactic carnot_cuda_linear_scan = {.name = "cuda_linear_scan",
                                               .anchor = CARNOT_OP_LINEAR_SCAN,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .device = true,
                                               .reject = scan_reject,
                                               .configure = scan_configure,
                                               .run = scan_run};
