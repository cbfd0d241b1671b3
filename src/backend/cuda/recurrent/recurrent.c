// LSTM, GRU and RNN by the generic kernel.
#include "backend/cuda/recurrent/recurrent.h"

#include "backend/cuda/common/generic.h"

enum { kMask = 8 };  // input of the operator

static int gates_of(carnot_op op) { return op == CARNOT_OP_LSTM ? 4 : op == CARNOT_OP_GRU ? 3 : 1; }

// Whether the activations are the operator's defaults.
static bool default_activations(const carnot_plan_node* node) {
  static const char* const kNames[] = {"Sigmoid", "Tanh", "Tanh"};
  const carnot_attr* names = carnot_attrs_find(&node->attrs, "activations");
  size_t count = node->op == CARNOT_OP_LSTM ? 3 : node->op == CARNOT_OP_GRU ? 2 : 1;
  for (size_t i = 0; names && i < names->count; i++)
    if (!carnot_view_is(names->strings[i], count == 1 ? "Tanh" : kNames[i % count])) return false;
  return true;
}

const char* carnot_cuda_recurrent_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_LSTM && node->op != CARNOT_OP_GRU && node->op != CARNOT_OP_RNN)
    return "";
  if (!default_activations(node)) return "the activations are not the usual ones";
  if (node->input_count > kMask && node->inputs[kMask] != CARNOT_PLAN_NONE)
    return "the steps have a mask";
  return carnot_cuda_generic_reject(problem, node->op, 0, reason, size);
}

static carnot_status* check_count(const carnot_operand* t, const char* what, int64_t wanted) {
  if (!t->format.dtype) return NULL;
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  int64_t count = carnot_dims_count(t->dims, t->rank);
  CARNOT_CHECK(count == wanted, INVALID_ARGUMENT, "%s has %lld elements; %lld are required", what,
               (long long)count, (long long)wanted);
  return NULL;
}

carnot_status* carnot_cuda_recurrent_geometry(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs,
                                              carnot_cuda_recurrent_params* out) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  const carnot_operand *x = &inputs[0], *w = &inputs[1], *r = &inputs[2];
  CARNOT_CHECK(step->input_count >= 3 && x->rank == 3 && w->rank == 3 && r->rank == 3,
               INVALID_MODEL, "%u operands, x of rank %d", step->input_count, x->rank);
  *out = (carnot_cuda_recurrent_params){
      .batch_first = carnot_attr_int(row, &node->attrs, "layout") != 0,
      .reverse = carnot_attr_is(row, &node->attrs, "direction", "reverse"),
      .gates = gates_of(node->op),
      .directions = carnot_attr_is(row, &node->attrs, "direction", "bidirectional") ? 2 : 1,
      .clip = carnot_attr_float(row, &node->attrs, "clip"),
      .input = x->dims[2],
      .hidden = r->dims[2]};
  out->time = x->dims[out->batch_first], out->batch = x->dims[!out->batch_first];
  if (node->op != CARNOT_OP_RNN)
    out->flag = carnot_attr_int(row, &node->attrs,
                                out->gates == 4 ? "input_forget" : "linear_before_reset") != 0;
  int64_t rows = out->gates * out->hidden, d = out->directions, last = d * out->batch * out->hidden;
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(check_count(w, "W", d * rows * out->input));
  CARNOT_TRY(check_count(r, "R", d * rows * out->hidden));
  CARNOT_TRY(check_count(carnot_cuda_optional(step, inputs, 3), "the bias", d * 2 * rows));
  CARNOT_TRY(check_count(carnot_cuda_optional(step, inputs, 4), "sequence_lens", out->batch));
  CARNOT_TRY(check_count(carnot_cuda_optional(step, inputs, 5), "initial_h", last));
  CARNOT_TRY(check_count(carnot_cuda_optional(step, inputs, 6), "initial_c", last));
  CARNOT_TRY(check_count(carnot_cuda_optional(step, inputs, 7), "P", d * 3 * out->hidden));
  CARNOT_TRY(check_count(carnot_cuda_output(step, outputs, 0), "Y", out->time * last));
  CARNOT_TRY(check_count(carnot_cuda_output(step, outputs, 1), "Y_h", last));
  CARNOT_TRY(check_count(carnot_cuda_output(step, outputs, 2), "Y_c", last));
  return NULL;
}

static carnot_status* recurrent_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  carnot_cuda_recurrent_params p;
  CARNOT_TRY(carnot_cuda_recurrent_geometry(step, inputs, outputs, &p));
  const int64_t rows = p.gates * p.hidden, d = p.directions;
  *out_workspace_bytes = (size_t)(d * p.batch * (3 * p.hidden + 2 * rows)) * sizeof(double);
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_recurrent,
                                       d * p.batch, &p, sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_GENERIC_TACTIC(recurrent, "cuda_recurrent", CARNOT_OP_COUNT,
                           carnot_cuda_recurrent_reject, recurrent_shape);
