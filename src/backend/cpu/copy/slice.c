// Slice with constant starts, axes and steps, as a strided copy.
#include "backend/cpu/copy/strided_copy.h"

typedef struct slice_params {
  int64_t start[CARNOT_MAX_RANK],
      step[CARNOT_MAX_RANK];  // start as given: negative counts from the end
} slice_params;

static const char* read_slice(const carnot_problem* problem, void* params, char* reason,
                              size_t size) {
  slice_params* out = params;
  const char* why = carnot_cpu_alone(problem, CARNOT_OP_SLICE);
  if (!why) why = carnot_cpu_moves_bytes(problem, reason, size);
  if (why) return why;
  int rank = problem->inputs[0].rank;
  for (int d = 0; d < rank; d++) out->start[d] = 0, out->step[d] = 1;
  int64_t lists[5][CARNOT_MAX_RANK] = {{0}};
  int64_t counts[5] = {0};
  for (uint32_t i = 1; i < problem->input_count && i < 5; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind != CARNOT_VALUE_TENSOR) continue;
    if (!carnot_is_known(t)) return "starts, ends, axes or steps are not constant";
    counts[i] = carnot_tensor_count(t->tensor);
    if (counts[i] > CARNOT_MAX_RANK) return "too many axes";
    for (int64_t k = 0; k < counts[i]; k++)
      lists[i][k] = carnot_load_i64(t->tensor->dtype, t->tensor->data, (size_t)k);
  }
  for (int64_t k = 0; k < counts[1]; k++) {
    int64_t axis = counts[3] > k ? lists[3][k] : k;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return "an axis is out of range";
    out->start[axis] = lists[1][k];
    if (counts[4] > k) out->step[axis] = lists[4][k];
  }
  return NULL;
}

static const char* slice_reject(carnot_problem* problem, char* reason, size_t size) {
  slice_params p;
  const char* why = read_slice(problem, &p, reason, size);
  if (!why) problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return why;
}

static carnot_status* slice_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_slice, sizeof(slice_params), out);
}

static carnot_status* slice_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(slice_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(slice_params));
  return NULL;
}

// The first index of the slice along an axis, ONNX Slice-13's clamping included; the last element
// read must be inside.
static carnot_status* slice_start(const slice_params* p, const carnot_operand* in,
                                  const carnot_operand* out, int axis, int64_t* start) {
  int64_t size = in->dims[axis], step = p->step[axis];
  CARNOT_CHECK(step != 0 && step > INT32_MIN && step < INT32_MAX, INVALID_MODEL,
               "a slice steps by %lld", (long long)step);
  int64_t at = p->start[axis] < 0 && p->start[axis] >= -size ? p->start[axis] + size
               : p->start[axis] < 0                          ? (step > 0 ? 0 : -1)
                                                             : p->start[axis];
  at = carnot_min_i64(at, step > 0 ? size : size - 1);
  *start = at;
  int64_t last = at + (out->dims[axis] - 1) * step;
  CARNOT_CHECK(out->dims[axis] == 0 || (at >= 0 && at < size && last >= 0 && last < size),
               INVALID_ARGUMENT, "a slice reads elements %lld to %lld of %lld", (long long)at,
               (long long)last, (long long)size);
  return NULL;
}

static carnot_status* slice_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  CARNOT_CHECK(
      inputs[0].format.dtype == outputs[0].format.dtype && inputs[0].rank == outputs[0].rank,
      INVALID_ARGUMENT, "a slice between types or ranks");
  int64_t* offset = state;
  *offset = 0;
  for (int d = 0; d < inputs[0].rank; d++) {
    int64_t start = 0;
    CARNOT_TRY(slice_start(step->params, &inputs[0], &outputs[0], d, &start));
    *offset += start * inputs[0].strides[d];
  }
  return NULL;
}

static carnot_status* slice_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace;
  const slice_params* p = step->params;
  int64_t strides[CARNOT_MAX_RANK];
  for (int d = 0; d < inputs[0].rank; d++) strides[d] = inputs[0].strides[d] * p->step[d];
  const char* src = (const char*)inputs[0].data + *(int64_t*)state * carnot_cpu_bytes(&inputs[0]);
  carnot_cpu_copy(step, executor, outputs[0].rank, outputs[0].dims, carnot_cpu_bytes(&inputs[0]),
                  src, strides, outputs[0].data, outputs[0].strides);
  return NULL;
}

const carnot_tactic carnot_tactic_slice = {.name = "cpu_slice",
                                           .anchor = CARNOT_OP_SLICE,
                                           .isa = CARNOT_ISA_SCALAR,
                                           .numerics = CARNOT_NUMERICS_EXACT,
                                           .strided_outputs = true,
                                           .takes_bf16 = true,
                                           .reject = slice_reject,
                                           .prepare = slice_prepare,
                                           .validate = slice_validate,
                                           .configure = slice_configure,
                                           .run = slice_run};
