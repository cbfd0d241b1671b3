// LSTM, GRU and RNN over float32 with constant weights: which problems they take, packed weights
// and biases, and the tactics.
#include "backend/cpu/recurrent/recurrent.h"

#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"

// The names are those that the operator has where the model says none.
static bool default_activations(const carnot_plan_node* node) {
  static const char* const kNames[] = {"Sigmoid", "Tanh", "Tanh"};
  const carnot_attr* names = carnot_attrs_find(&node->attrs, "activations");
  const size_t count = node->op == CARNOT_OP_LSTM  ? 3
                       : node->op == CARNOT_OP_GRU ? 2
                                                   : 1,
               first = node->op == CARNOT_OP_RNN ? 1 : 0;
  for (size_t i = 0; names && i < names->count; i++)
    if (!carnot_view_is(names->strings[i], kNames[first + i % count])) return false;
  return true;
}

static const carnot_tensor* constant_of(const carnot_problem* problem, uint32_t i) {
  const carnot_plan_node* node = carnot_cpu_recurrent_node(problem->region);
  if (!carnot_cpu_recurrent_has(node, i) || node->inputs[i] >= problem->input_count) return NULL;
  const carnot_operand_desc* t = &problem->inputs[node->inputs[i]];
  return carnot_is_f32_constant(t) ? t->tensor : NULL;
}

static const char* read_problem(const carnot_problem* problem, carnot_cpu_recurrent_params* p,
                                char* reason, size_t size) {
  const carnot_plan_node* node = carnot_cpu_recurrent_node(problem->region);
  *p = (carnot_cpu_recurrent_params){0};
  if (problem->region->node_count != 1 || node->op != problem->tactic->anchor) return "";
  const carnot_op_row* row = carnot_op_get(node->op);
  const char* why =
      carnot_not_f32(&problem->inputs[node->inputs[kX]], "the input", 3, 3, reason, size);
  if (why) return why;
  const carnot_tensor *w = constant_of(problem, kW), *r = constant_of(problem, kR);
  if (!w || !r) return "the weights are not constant float32";
  if (carnot_cpu_recurrent_has(node, kLengths)) return "the sequences have lengths";
  if (carnot_cpu_recurrent_has(node, kPeepholes)) return "there are peepholes";
  if (carnot_cpu_recurrent_has(node, kBias) && !constant_of(problem, kBias))
    return "the bias is not constant";
  for (uint32_t i = kInitialH; i <= kInitialC; i++) {
    if (!carnot_cpu_recurrent_has(node, i)) continue;
    why = carnot_not_f32(&problem->inputs[node->inputs[i]], "an initial state", 3, 3, reason, size);
    if (why) return why;
  }
  if (!default_activations(node)) return "the activations are not the usual ones";
  if (carnot_attr_float(row, &node->attrs, "clip") != 0) return "the gates are clipped";
  p->gates = carnot_cpu_recurrent_gates(node->op);
  if (p->gates == 4 && carnot_attr_int(row, &node->attrs, "input_forget"))
    return "the forget gate is tied to the input gate";
  p->linear = p->gates == 3 && carnot_attr_int(row, &node->attrs, "linear_before_reset") != 0;
  p->batch_first = carnot_attr_int(row, &node->attrs, "layout") != 0;
  p->reverse = carnot_attr_is(row, &node->attrs, "direction", "reverse");
  p->directions = (int32_t)w->dims[0];
  p->hidden = r->dims[2];
  p->input = w->dims[2];
  bool both = carnot_attr_is(row, &node->attrs, "direction", "bidirectional");
  bool sized = w->rank == 3 && r->rank == 3 && p->directions == (both ? 2 : 1) &&
               r->dims[0] == p->directions && w->dims[1] == p->gates * p->hidden &&
               r->dims[1] == p->gates * p->hidden && p->hidden >= 1 && p->input >= 1 &&
               p->hidden < 1 << 20 && p->input < 1 << 20;
  const carnot_tensor* bias = constant_of(problem, kBias);
  if (!sized || (bias && carnot_tensor_count(bias) != 2 * p->directions * p->gates * p->hidden))
    return "the sizes of the weights do not match";
  return NULL;
}

static const char* recurrent_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cpu_recurrent_params p;
  const char* why = read_problem(problem, &p, reason, size);
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  const uint32_t last = carnot_packed_weights_split(type) ? kW : kR;
  for (uint32_t i = kW; i <= last && !why && type != CARNOT_WEIGHTS_F32; i++)
    why = carnot_packed_weights_reject(problem, constant_of(problem, i), type, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_packed_weights_shape shape_of_w(const carnot_cpu_recurrent_params* p) {
  return (carnot_packed_weights_shape){1, p->input, carnot_cpu_recurrent_columns(p)};
}

static carnot_status* add_constant(carnot_prepared* out, int at, const char* packing, size_t bytes,
                                   void** out_data) {
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", out_data));
  *out_data = (void*)carnot_align_up((uintptr_t)*out_data, 64);
  out->constants[at].packing = packing;
  out->constants[at].data = *out_data;
  out->constants[at].bytes = bytes;
  return NULL;
}

// The transpose of |rows| [n, depth].
static carnot_status* pack(carnot_weights_type type, carnot_packed_weights_shape shape,
                           const float* rows, void* packed) {
  const carnot_weights_matrix matrix = {rows, 1, shape.depth, 1};
  return carnot_packed_weights_pack_matrix(NULL, type, shape, matrix, packed);
}

static carnot_status* pack_r(const carnot_cpu_recurrent_params* p, const float* r, char* packed) {
  int64_t rows = p->gates * p->hidden, first = carnot_cpu_recurrent_first_gates(p);
  for (int64_t d = 0; d < p->directions; d++) {
    const float* from = r + d * rows * p->hidden;
    char* to = packed + (size_t)d * carnot_cpu_recurrent_r_bytes(p);
    CARNOT_TRY(
        pack(carnot_cpu_recurrent_r_type(p), carnot_cpu_recurrent_r_shape(p, first), from, to));
    CARNOT_TRY(
        pack(carnot_cpu_recurrent_r_type(p), carnot_cpu_recurrent_r_shape(p, p->gates - first),
             from + first * p->hidden * p->hidden, to + carnot_cpu_recurrent_first_r_bytes(p)));
  }
  return NULL;
}

// The state's bias goes with the input's, but for what linear_before_reset multiplies by the reset
// gate.
static void split_bias(const carnot_cpu_recurrent_params* p, const float* bias, float* input_bias,
                       float* state_bias) {
  int64_t rows = p->gates * p->hidden;
  for (int64_t d = 0; d < p->directions; d++)
    for (int64_t j = 0; j < rows; j++) {
      float b = bias[(2 * d + 1) * rows + j];
      bool apart = p->linear && j >= 2 * p->hidden;
      input_bias[d * rows + j] = bias[2 * d * rows + j] + (apart ? 0 : b);
      state_bias[d * rows + j] = apart ? b : 0;
    }
}

static carnot_status* recurrent_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  void* params;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_cpu_recurrent_params), "parameters", &params));
  carnot_cpu_recurrent_params* p = params;
  char reason[256];
  const char* why = read_problem(problem, p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = p;
  out->param_bytes = sizeof(*p);
  p->weights = (int32_t)type;
  void *w, *r, *input_bias, *state_bias;
  size_t bias_bytes = (size_t)carnot_cpu_recurrent_columns(p) * sizeof(float);
  out->constant_count = kConstants;
  CARNOT_TRY(add_constant(out, kPackedW, carnot_packed_weights_packing(type),
                          carnot_packed_weights_bytes(type, shape_of_w(p)), &w));
  CARNOT_TRY(add_constant(out, kPackedR,
                          carnot_packed_weights_packing(carnot_cpu_recurrent_r_type(p)),
                          (size_t)p->directions * carnot_cpu_recurrent_r_bytes(p), &r));
  CARNOT_TRY(add_constant(out, kInputBias, "dense f32", bias_bytes, &input_bias));
  CARNOT_TRY(add_constant(out, kStateBias, "dense f32", bias_bytes, &state_bias));
  CARNOT_TRY(pack(type, shape_of_w(p), constant_of(problem, kW)->data, w));
  CARNOT_TRY(pack_r(p, constant_of(problem, kR)->data, r));
  const carnot_tensor* bias = constant_of(problem, kBias);
  memset(input_bias, 0, bias_bytes);
  memset(state_bias, 0, bias_bytes);
  if (bias) split_bias(p, bias->data, input_bias, state_bias);
  const carnot_plan_node* node = carnot_cpu_recurrent_node(problem->region);
  for (uint32_t i = kW; i <= kBias; i++)
    if (carnot_cpu_recurrent_has(node, i)) out->packed_inputs |= (uint64_t)1 << node->inputs[i];
  return NULL;
}

static carnot_status* recurrent_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_cpu_recurrent_params) &&
                   step->constant_count == kConstants,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %d",
               step->param_bytes, step->constant_count, sizeof(carnot_cpu_recurrent_params),
               kConstants);
  const carnot_cpu_recurrent_params* p = step->params;
  const carnot_plan_node* node = carnot_cpu_recurrent_node(step->region);
  CARNOT_CHECK(node->op == step->tactic->anchor && p->gates == carnot_cpu_recurrent_gates(node->op),
               INVALID_MODEL, "%d gates", p->gates);
  CARNOT_CHECK(p->hidden >= 1 && p->hidden < 1 << 20 && p->input >= 1 && p->input < 1 << 20 &&
                   p->directions >= 1 && p->directions <= 2,
               INVALID_MODEL, "%d directions of [%lld,%lld]", p->directions, (long long)p->hidden,
               (long long)p->input);
  size_t columns = (size_t)carnot_cpu_recurrent_columns(p) * sizeof(float);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(step->tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(step->tactic));
  CARNOT_CHECK(
      step->constant_bytes[kPackedW] ==
              carnot_packed_weights_bytes((carnot_weights_type)p->weights, shape_of_w(p)) &&
          step->constant_bytes[kPackedR] ==
              (size_t)p->directions * carnot_cpu_recurrent_r_bytes(p) &&
          step->constant_bytes[kInputBias] == columns &&
          step->constant_bytes[kStateBias] == columns,
      INVALID_MODEL, "packed weights have other sizes than the parameters say");
  CARNOT_CHECK(node->input_count >= 3 && node->inputs[kX] < step->input_count, INVALID_MODEL,
               "the step has no input");
  for (uint32_t i = kInitialH; i <= kMask; i++)
    CARNOT_CHECK(!carnot_cpu_recurrent_has(node, i) || node->inputs[i] < step->input_count,
                 INVALID_MODEL, "the step has no input %u", node->inputs[i]);
  return NULL;
}

static bool recurrent_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = carnot_cpu_recurrent_node(step->region);
  for (uint32_t i = kW; i <= kBias; i++)
    if (carnot_cpu_recurrent_has(node, i) && node->inputs[i] == input) return false;
  return true;
}
static void recurrent_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_cpu_recurrent_params p;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (read_problem(problem, &p, reason, sizeof(reason))) return;
  const carnot_operand_desc* x =
      &problem->inputs[carnot_cpu_recurrent_node(problem->region)->inputs[kX]];
  double rows = (double)carnot_dims_count(x->dims, 2);
  *out_flops = 2 * rows * (double)(carnot_cpu_recurrent_columns(&p) * (p.input + p.hidden));
  *out_bytes = 4 * (rows * (double)(p.input + p.directions * p.hidden) +
                    (double)(carnot_cpu_recurrent_columns(&p) * (p.input + p.hidden)));
}

#define RECURRENT_TACTIC                                                                    \
  .reject = recurrent_reject, .prepare = recurrent_prepare, .validate = recurrent_validate, \
  .uses_input = recurrent_uses_input, .configure = carnot_cpu_recurrent_configure,          \
  .run = carnot_cpu_recurrent_run, .work = recurrent_work, .empty_inputs = true
CARNOT_CPU_SPLIT_TACTICS(lstm, RECURRENT_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_TACTICS(lstm_f32, RECURRENT_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_F16_TACTICS(lstm_f16, RECURRENT_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_BF16_TACTICS(lstm_bf16, RECURRENT_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_SPLIT_TACTICS(gru, RECURRENT_TACTIC, .anchor = CARNOT_OP_GRU);
CARNOT_CPU_TACTICS(gru_f32, RECURRENT_TACTIC, .anchor = CARNOT_OP_GRU);
CARNOT_CPU_F16_TACTICS(gru_f16, RECURRENT_TACTIC, .anchor = CARNOT_OP_GRU);
CARNOT_CPU_BF16_TACTICS(gru_bf16, RECURRENT_TACTIC, .anchor = CARNOT_OP_GRU);
CARNOT_CPU_SPLIT_TACTICS(rnn, RECURRENT_TACTIC, .anchor = CARNOT_OP_RNN);
CARNOT_CPU_TACTICS(rnn_f32, RECURRENT_TACTIC, .anchor = CARNOT_OP_RNN);
