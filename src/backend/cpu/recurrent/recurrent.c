// LSTM and GRU over float32 with constant weights: one GEMM of the input for all time steps, then
// for each time step a GEMM of the state and one pointwise program. Directions, and blocks of
// sequences, run at once.
//   gates[t,b] = x[t,b] * W^T + bias;  then the formulas of ONNX LSTM-22 and GRU-22
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"

enum { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

typedef struct recurrent_params {
  int64_t input, hidden;
  int32_t directions, gates;
  int32_t reverse, batch_first;
  int32_t linear;   // GRU: linear_before_reset
  int32_t weights;  // carnot_dtype of the packed ones
} recurrent_params;

// Constants of the step.
enum { kPackedW, kPackedR, kInputBias, kStateBias, kConstants };

static const carnot_plan_node* node_of(const carnot_region* region) { return &region->nodes[0]; }

static bool is_lstm(const carnot_step_view* step) {
  return node_of(step->region)->op == CARNOT_OP_LSTM;
}

static bool has_input(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count && node->inputs[i] != CARNOT_PLAN_NONE;
}

// The names are those that the operator has where the model says none.
static bool default_activations(const carnot_plan_node* node) {
  static const char* const kNames[] = {"Sigmoid", "Tanh", "Tanh"};
  const carnot_attr* names = carnot_attrs_find(&node->attrs, "activations");
  size_t count = node->op == CARNOT_OP_LSTM ? 3 : 2;
  for (size_t i = 0; names && i < names->count; i++)
    if (!carnot_view_is(names->strings[i], kNames[i % count])) return false;
  return true;
}

static const carnot_tensor* constant_of(const carnot_problem* problem, uint32_t i) {
  const carnot_plan_node* node = node_of(problem->region);
  if (!has_input(node, i) || node->inputs[i] >= problem->input_count) return NULL;
  const carnot_operand_desc* t = &problem->inputs[node->inputs[i]];
  return carnot_is_f32_constant(t) ? t->tensor : NULL;
}

static const char* describe(const carnot_problem* problem, recurrent_params* p, char* reason,
                            size_t size) {
  const carnot_plan_node* node = node_of(problem->region);
  *p = (recurrent_params){0};
  if (problem->region->node_count != 1 || (node->op != CARNOT_OP_LSTM && node->op != CARNOT_OP_GRU))
    return "";
  const carnot_op_row* row = carnot_op_get(node->op);
  const char* why =
      carnot_not_f32(&problem->inputs[node->inputs[kX]], "the input", 3, 3, reason, size);
  if (why) return why;
  const carnot_tensor *w = constant_of(problem, kW), *r = constant_of(problem, kR);
  if (!w || !r) return "the weights are not constant float32";
  if (has_input(node, kLengths)) return "the sequences have lengths of their own";
  if (has_input(node, kPeepholes)) return "there are peepholes";
  if (has_input(node, kBias) && !constant_of(problem, kBias)) return "the bias is not constant";
  for (uint32_t i = kInitialH; i <= kInitialC; i++) {
    if (!has_input(node, i)) continue;
    why = carnot_not_f32(&problem->inputs[node->inputs[i]], "an initial state", 3, 3, reason, size);
    if (why) return why;
  }
  if (!default_activations(node)) return "the activations are not the usual ones";
  if (carnot_attr_float(row, &node->attrs, "clip") != 0) return "the gates are clipped";
  p->gates = node->op == CARNOT_OP_LSTM ? 4 : 3;
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
  recurrent_params p;
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static const char* reject_as(carnot_problem* problem, carnot_dtype dtype, char* reason,
                             size_t size) {
  const char* why = recurrent_reject(problem, reason, size);
  for (uint32_t i = kW; i <= kR && !why; i++)
    why = carnot_packed_weights_reject(problem, constant_of(problem, i), dtype, reason, size);
  return why;
}

static const char* recurrent_f16_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_as(problem, CARNOT_DTYPE_F16, reason, size);
}
static const char* recurrent_bf16_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_as(problem, CARNOT_DTYPE_BF16, reason, size);
}

// Gates that the first GEMM of a time step computes. The others, of a GRU that applies the reset
// gate before its GEMM, need the reset gate first.
static int64_t first_gates(const recurrent_params* p) {
  return p->gates == 3 && !p->linear ? 2 : p->gates;
}

static carnot_packed_weights_shape shape_of_r(const recurrent_params* p, int64_t gates) {
  return (carnot_packed_weights_shape){1, p->hidden, gates * p->hidden};
}

// Bytes of R^T of a direction: the first gates, then the others.
static size_t first_r_bytes(const recurrent_params* p) {
  return carnot_packed_weights_bytes((carnot_dtype)p->weights, shape_of_r(p, first_gates(p)));
}
static size_t packed_r_bytes(const recurrent_params* p) {
  return first_r_bytes(p) + carnot_packed_weights_bytes((carnot_dtype)p->weights,
                                                        shape_of_r(p, p->gates - first_gates(p)));
}

static int64_t gate_columns(const recurrent_params* p) {
  return p->directions * p->gates * p->hidden;
}

static carnot_packed_weights_shape shape_of_w(const recurrent_params* p) {
  return (carnot_packed_weights_shape){1, p->input, gate_columns(p)};
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
static carnot_status* pack(carnot_dtype dtype, carnot_packed_weights_shape shape, const float* rows,
                           void* packed) {
  if (dtype == CARNOT_DTYPE_F32) {
    carnot_pack_k1n16_f32(shape.depth, shape.n, rows, 1, shape.depth, packed);
    return NULL;
  }
  void* wide;
  CARNOT_TRY(carnot_calloc(1, carnot_packed_weights_bytes(CARNOT_DTYPE_F32, shape),
                           "weights before packing", &wide));
  carnot_pack_k1n16_f32(shape.depth, shape.n, rows, 1, shape.depth, wide);
  carnot_packed_weights_pack(dtype, shape, wide, packed);
  free(wide);
  return NULL;
}

static carnot_status* pack_r(const recurrent_params* p, const float* r, char* packed) {
  int64_t rows = p->gates * p->hidden, first = first_gates(p);
  for (int64_t d = 0; d < p->directions; d++) {
    const float* from = r + d * rows * p->hidden;
    char* to = packed + (size_t)d * packed_r_bytes(p);
    CARNOT_TRY(pack((carnot_dtype)p->weights, shape_of_r(p, first), from, to));
    CARNOT_TRY(pack((carnot_dtype)p->weights, shape_of_r(p, p->gates - first),
                    from + first * p->hidden * p->hidden, to + first_r_bytes(p)));
  }
  return NULL;
}

// The state's bias goes with the input's, but for what linear_before_reset multiplies by the reset
// gate.
static void split_bias(const recurrent_params* p, const float* bias, float* input_bias,
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

static carnot_status* prepare_as(const carnot_problem* problem, carnot_dtype dtype,
                                 carnot_prepared* out) {
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(recurrent_params), "parameters", &params));
  recurrent_params* p = params;
  char reason[256];
  const char* why = describe(problem, p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = p;
  out->param_bytes = sizeof(*p);
  p->weights = (int32_t)dtype;
  void *w, *r, *input_bias, *state_bias;
  const char* packing = carnot_packed_weights_packing(dtype);
  size_t bias_bytes = (size_t)gate_columns(p) * sizeof(float);
  out->constant_count = kConstants;
  CARNOT_TRY(
      add_constant(out, kPackedW, packing, carnot_packed_weights_bytes(dtype, shape_of_w(p)), &w));
  CARNOT_TRY(add_constant(out, kPackedR, packing, (size_t)p->directions * packed_r_bytes(p), &r));
  CARNOT_TRY(add_constant(out, kInputBias, "dense f32", bias_bytes, &input_bias));
  CARNOT_TRY(add_constant(out, kStateBias, "dense f32", bias_bytes, &state_bias));
  CARNOT_TRY(pack(dtype, shape_of_w(p), constant_of(problem, kW)->data, w));
  CARNOT_TRY(pack_r(p, constant_of(problem, kR)->data, r));
  const carnot_tensor* bias = constant_of(problem, kBias);
  memset(input_bias, 0, bias_bytes);
  memset(state_bias, 0, bias_bytes);
  if (bias) split_bias(p, bias->data, input_bias, state_bias);
  const carnot_plan_node* node = node_of(problem->region);
  for (uint32_t i = kW; i <= kBias; i++)
    if (has_input(node, i)) out->packed_inputs |= (uint64_t)1 << node->inputs[i];
  return NULL;
}

static carnot_status* recurrent_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_F32, out);
}
static carnot_status* recurrent_f16_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_F16, out);
}
static carnot_status* recurrent_bf16_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_BF16, out);
}

static carnot_status* recurrent_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(recurrent_params) && step->constant_count == kConstants,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %d",
               step->param_bytes, step->constant_count, sizeof(recurrent_params), kConstants);
  const recurrent_params* p = step->params;
  const carnot_plan_node* node = node_of(step->region);
  CARNOT_CHECK(
      (node->op == CARNOT_OP_LSTM && p->gates == 4) || (node->op == CARNOT_OP_GRU && p->gates == 3),
      INVALID_MODEL, "%d gates", p->gates);
  CARNOT_CHECK(p->hidden >= 1 && p->hidden < 1 << 20 && p->input >= 1 && p->input < 1 << 20 &&
                   p->directions >= 1 && p->directions <= 2,
               INVALID_MODEL, "%d directions of [%lld,%lld]", p->directions, (long long)p->hidden,
               (long long)p->input);
  size_t columns = (size_t)gate_columns(p) * sizeof(float);
  CARNOT_CHECK(carnot_packed_weights_known((carnot_dtype)p->weights), INVALID_MODEL,
               "packed weights of type %d", p->weights);
  CARNOT_CHECK(step->constant_bytes[kPackedW] ==
                       carnot_packed_weights_bytes((carnot_dtype)p->weights, shape_of_w(p)) &&
                   step->constant_bytes[kPackedR] == (size_t)p->directions * packed_r_bytes(p) &&
                   step->constant_bytes[kInputBias] == columns &&
                   step->constant_bytes[kStateBias] == columns,
               INVALID_MODEL, "packed weights have other sizes than the parameters say");
  CARNOT_CHECK(node->input_count >= 3 && node->inputs[kX] < step->input_count, INVALID_MODEL,
               "the step has no input");
  for (uint32_t i = kInitialH; i <= kInitialC; i++)
    CARNOT_CHECK(!has_input(node, i) || node->inputs[i] < step->input_count, INVALID_MODEL,
                 "the step has no input %u", node->inputs[i]);
  return NULL;
}

static bool recurrent_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = node_of(step->region);
  for (uint32_t i = kW; i <= kBias; i++)
    if (has_input(node, i) && node->inputs[i] == input) return false;
  return true;
}

typedef struct recurrent_state {
  int64_t time, batch, block, blocks;  // sequences of a part, parts of a direction
  carnot_work_partition partition;     // of the GEMM of the input
} recurrent_state;

// The step's output that is output |i| of the operator; NULL when nothing uses it.
static const carnot_operand* output_of(const carnot_step_view* step, const carnot_operand* outputs,
                                       uint32_t i) {
  uint32_t k = carnot_step_output(step, node_of(step->region), i);
  return k == CARNOT_PLAN_NONE ? NULL : &outputs[k];
}

static const carnot_operand* initial_of(const carnot_step_view* step, const carnot_operand* inputs,
                                        uint32_t i) {
  const carnot_plan_node* node = node_of(step->region);
  return has_input(node, i) ? &inputs[node->inputs[i]] : NULL;
}

static carnot_status* check_states(const recurrent_params* p, const recurrent_state* s,
                                   const carnot_operand* t, const char* what) {
  if (!t || (!t->rank && !t->data)) return NULL;
  bool fits = t->format.dtype == CARNOT_DTYPE_F32 && t->rank == 3 &&
              t->dims[p->batch_first ? 1 : 0] == p->directions &&
              t->dims[p->batch_first ? 0 : 1] == s->batch && t->dims[2] == p->hidden;
  CARNOT_CHECK(fits, INVALID_ARGUMENT,
               "%s is not float32 of %d directions, %lld sequences and %lld units", what,
               p->directions, (long long)s->batch, (long long)p->hidden);
  return NULL;
}

// Floats of a part: h, c, the gates, and what the reset gate multiplies.
static int64_t part_floats(const recurrent_params* p, const recurrent_state* s) {
  return s->block * (2 + 2 * p->gates) * p->hidden;
}

static carnot_status* recurrent_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const recurrent_params* p = step->params;
  recurrent_state* s = memory;
  const carnot_operand* x = &inputs[node_of(step->region)->inputs[kX]];
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && x->rank == 3 && x->dims[2] == p->input,
               INVALID_ARGUMENT, "the input has no rows of %lld float32", (long long)p->input);
  s->time = x->dims[p->batch_first ? 1 : 0];
  s->batch = x->dims[p->batch_first ? 0 : 1];
  const carnot_operand* y = output_of(step, outputs, 0);
  if (y) {
    const int64_t want[4] = {p->batch_first ? s->batch : s->time,
                             p->batch_first ? s->time : p->directions,
                             p->batch_first ? p->directions : s->batch, p->hidden};
    bool fits = y->format.dtype == CARNOT_DTYPE_F32 && y->rank == 4;
    for (int d = 0; fits && d < 4; d++) fits = y->dims[d] == want[d];
    CARNOT_CHECK(fits, INVALID_ARGUMENT,
                 "the result is not float32 of %lld steps of %lld sequences", (long long)s->time,
                 (long long)s->batch);
  }
  for (uint32_t i = 1; i < 3; i++)
    CARNOT_TRY(check_states(p, s, output_of(step, outputs, i), "a last state"));
  for (uint32_t i = kInitialH; i <= kInitialC; i++)
    CARNOT_TRY(check_states(p, s, initial_of(step, inputs, i), "an initial state"));
  int64_t rows = s->time * s->batch;
  s->partition = carnot_work_partition_make(step->tactic->isa, rows, gate_columns(p), p->input);
  s->block = carnot_ceildiv(s->batch, carnot_max_i64(1, carnot_min_i64(8, s->batch / 4)));
  s->blocks = carnot_ceildiv(s->batch, s->block);
  *out_workspace_bytes =
      (size_t)(rows * gate_columns(p) + part_floats(p, s) * s->blocks * p->directions) *
      sizeof(float);
  return NULL;
}

typedef struct recurrent_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const recurrent_params* params;
  const recurrent_state* state;
  const carnot_operand *x, *initial_h, *initial_c, *y, *last_h, *last_c;
  float *input_gates, *scratch;
} recurrent_run;

static void input_part(void* argument, int64_t part) {
  const recurrent_run* run = argument;
  const recurrent_params* p = run->params;
  int64_t m0, m1, n0, n1, columns = gate_columns(p);
  carnot_gemm_f32 gemm = {.m = run->state->partition.m,
                          .n = columns,
                          .k = p->input,
                          .a = run->x->data,
                          .lda = p->input,
                          .b = run->step->constants[kPackedW],
                          .c = run->input_gates,
                          .ldc = columns,
                          .epilogue = {.bias = run->step->constants[kInputBias]}};
  carnot_work_partition_part(&run->state->partition, part, &m0, &m1, &n0, &n1);
  carnot_packed_weights_gemm(run->kernels, (carnot_dtype)p->weights)(&gemm, m0, m1, n0, n1);
}

#define FN1(f, d, x)                            \
  {                                             \
    .fn = CARNOT_PW_##f, .dst = d, .src = { x } \
  }
#define FN2(f, d, x, y)                            \
  {                                                \
    .fn = CARNOT_PW_##f, .dst = d, .src = { x, y } \
  }

// Inputs i, o, f, g, c; outputs c, h.
static const carnot_pw_program kLstm = {
    .instruction_count = 9,
    .register_count = 14,
    .input_count = 5,
    .output_count = 2,
    .output_register = {10, 13},
    .instructions = {FN1(SIGMOID, 5, 0), FN1(SIGMOID, 6, 2), FN1(TANH, 7, 3), FN2(MUL, 8, 6, 4),
                     FN2(MUL, 9, 5, 7), FN2(ADD, 10, 8, 9), FN1(SIGMOID, 11, 1), FN1(TANH, 12, 10),
                     FN2(MUL, 13, 11, 12)}};
// Inputs z, r, n of the input, z, r, n of the state, h; output h.
static const carnot_pw_program kGruLinear = {
    .instruction_count = 10,
    .register_count = 17,
    .input_count = 7,
    .output_count = 1,
    .output_register = {16},
    .instructions = {FN2(ADD, 7, 0, 3), FN1(SIGMOID, 8, 7), FN2(ADD, 9, 1, 4), FN1(SIGMOID, 10, 9),
                     FN2(MUL, 11, 10, 5), FN2(ADD, 12, 2, 11), FN1(TANH, 13, 12),
                     FN2(SUB, 14, 6, 13), FN2(MUL, 15, 8, 14), FN2(ADD, 16, 13, 15)}};
// Inputs r, h; output r * h.
static const carnot_pw_program kGruReset = {
    .instruction_count = 2,
    .register_count = 4,
    .input_count = 2,
    .output_count = 1,
    .output_register = {3},
    .instructions = {FN1(SIGMOID, 2, 0), FN2(MUL, 3, 2, 1)}};
// Inputs z, n, h; output h.
static const carnot_pw_program kGru = {
    .instruction_count = 5,
    .register_count = 8,
    .input_count = 3,
    .output_count = 1,
    .output_register = {7},
    .instructions = {FN1(SIGMOID, 3, 0), FN1(TANH, 4, 1), FN2(SUB, 5, 2, 4), FN2(MUL, 6, 3, 5),
                     FN2(ADD, 7, 4, 6)}};

// One part: the sequences [first, first + count) of a direction.
typedef struct sequences {
  const recurrent_run* run;
  int64_t direction, first, count;
  float *h, *c, *gates, *reset;
} sequences;

static carnot_pw_operand rows_of(const float* data, int64_t ld) {
  return (carnot_pw_operand){(void*)(uintptr_t)data, ld, 1};
}

// dst = a * R^T (+ x) for |gates| gates from |from| on; |x| NULL: the state's bias instead.
static void project(const sequences* q, const float* a, int64_t from, int64_t gates, const float* x,
                    int64_t x_ld, float* dst) {
  const recurrent_params* p = q->run->params;
  int64_t h = p->hidden, n = gates * h;
  const char* packed = (const char*)q->run->step->constants[kPackedR] +
                       (size_t)q->direction * packed_r_bytes(p) + (from ? first_r_bytes(p) : 0);
  carnot_gemm_f32 gemm = {
      .m = q->count, .n = n, .k = h, .a = a, .lda = h, .b = packed, .c = dst, .ldc = p->gates * h};
  if (x)
    gemm.epilogue = (carnot_epilogue_f32){.residual = x, .residual_ld = x_ld};
  else
    gemm.epilogue.bias =
        (const float*)q->run->step->constants[kStateBias] + q->direction * p->gates * h + from * h;
  carnot_packed_weights_gemm(q->run->kernels, (carnot_dtype)p->weights)(&gemm, 0, q->count, 0, n);
}

static void advance(const sequences* q, const float* x, int64_t x_ld) {
  const recurrent_params* p = q->run->params;
  const carnot_cpu_kernels* kernels = q->run->kernels;
  int64_t h = p->hidden, ld = p->gates * h, n = q->count;
  float* g = q->gates;
  const carnot_pw_operand h_out[2] = {rows_of(q->c, h), rows_of(q->h, h)};
  if (p->gates == 4) {
    project(q, q->h, 0, 4, x, x_ld, g);
    const carnot_pw_operand in[5] = {rows_of(g, ld), rows_of(g + h, ld), rows_of(g + 2 * h, ld),
                                     rows_of(g + 3 * h, ld), rows_of(q->c, h)};
    kernels->pointwise(&kLstm, in, h_out, 0, n, h);
  } else if (p->linear) {
    project(q, q->h, 0, 3, NULL, 0, g);
    const carnot_pw_operand in[7] = {
        rows_of(x, x_ld),   rows_of(x + h, x_ld),   rows_of(x + 2 * h, x_ld), rows_of(g, ld),
        rows_of(g + h, ld), rows_of(g + 2 * h, ld), rows_of(q->h, h)};
    kernels->pointwise(&kGruLinear, in, h_out + 1, 0, n, h);
  } else {
    project(q, q->h, 0, 2, x, x_ld, g);
    const carnot_pw_operand in[2] = {rows_of(g + h, ld), rows_of(q->h, h)},
                            out = rows_of(q->reset, h);
    kernels->pointwise(&kGruReset, in, &out, 0, n, h);
    project(q, q->reset, 2, 1, x + 2 * h, x_ld, g + 2 * h);
    const carnot_pw_operand last[3] = {rows_of(g, ld), rows_of(g + 2 * h, ld), rows_of(q->h, h)};
    kernels->pointwise(&kGru, last, h_out + 1, 0, n, h);
  }
}

// Copies the states of the part's sequences from or to a tensor [D,B,H] or [B,D,H]; zeros where
// there is none.
static void move_states(const sequences* q, const carnot_operand* t, float* own, bool out) {
  const recurrent_params* p = q->run->params;
  bool present = t && t->data;
  for (int64_t i = 0; i < q->count; i++) {
    float* mine = own + i * p->hidden;
    size_t bytes = (size_t)p->hidden * sizeof(float);
    if (!present) {
      if (!out) memset(mine, 0, bytes);
      continue;
    }
    int64_t b = q->first + i;
    float* theirs = (float*)t->data + (p->batch_first ? b * p->directions + q->direction
                                                      : q->direction * q->run->state->batch + b) *
                                          p->hidden;
    memcpy(out ? theirs : mine, out ? mine : theirs, bytes);
  }
}

static void write_step(const sequences* q, int64_t t) {
  const recurrent_run* run = q->run;
  const recurrent_params* p = run->params;
  for (int64_t i = 0; run->y && i < q->count; i++) {
    int64_t b = q->first + i, batch = run->state->batch;
    int64_t row = p->batch_first ? (b * run->state->time + t) * p->directions + q->direction
                                 : (t * p->directions + q->direction) * batch + b;
    memcpy((float*)run->y->data + row * p->hidden, q->h + i * p->hidden,
           (size_t)p->hidden * sizeof(float));
  }
}

static void sequence_part(void* argument, int64_t part) {
  const recurrent_run* run = argument;
  const recurrent_params* p = run->params;
  const recurrent_state* s = run->state;
  sequences q = {.run = run, .direction = part / s->blocks, .first = part % s->blocks * s->block};
  q.count = carnot_min_i64(s->block, s->batch - q.first);
  q.h = run->scratch + part * part_floats(p, s);
  q.c = q.h + s->block * p->hidden;
  q.gates = q.c + s->block * p->hidden;
  q.reset = q.gates + s->block * p->gates * p->hidden;
  move_states(&q, run->initial_h, q.h, false);
  move_states(&q, run->initial_c, q.c, false);
  int64_t columns = gate_columns(p), ld = p->batch_first ? s->time * columns : columns;
  bool backward = q.direction == 1 || p->reverse;
  for (int64_t i = 0; i < s->time; i++) {
    int64_t t = backward ? s->time - 1 - i : i;
    int64_t row = p->batch_first ? q.first * s->time + t : t * s->batch + q.first;
    advance(&q, run->input_gates + row * columns + q.direction * p->gates * p->hidden, ld);
    write_step(&q, t);
  }
  move_states(&q, run->last_h, q.h, true);
  move_states(&q, run->last_c, q.c, true);
}

static carnot_status* recurrent_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  recurrent_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                       .step = step,
                       .params = step->params,
                       .state = state,
                       .input_gates = workspace};
  run.x = &inputs[node_of(step->region)->inputs[kX]];
  run.initial_h = initial_of(step, inputs, kInitialH);
  run.initial_c = is_lstm(step) ? initial_of(step, inputs, kInitialC) : NULL;
  run.y = output_of(step, outputs, 0);
  run.last_h = output_of(step, outputs, 1);
  run.last_c = output_of(step, outputs, 2);
  run.scratch = run.input_gates + run.state->time * run.state->batch * gate_columns(run.params);
  carnot_executor_parallel(executor, carnot_work_partition_count(&run.state->partition), input_part,
                           &run);
  carnot_executor_parallel(executor, run.params->directions * run.state->blocks, sequence_part,
                           &run);
  return NULL;
}

static void recurrent_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  recurrent_params p;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (describe(problem, &p, reason, sizeof(reason))) return;
  const carnot_operand_desc* x = &problem->inputs[node_of(problem->region)->inputs[kX]];
  double rows = (double)carnot_dims_count(x->dims, 2);
  *out_flops = 2 * rows * (double)(gate_columns(&p) * (p.input + p.hidden));
  *out_bytes = 4 * (rows * (double)(p.input + p.directions * p.hidden) +
                    (double)(gate_columns(&p) * (p.input + p.hidden)));
}

#define RECURRENT_TACTIC                                              \
  .validate = recurrent_validate, .uses_input = recurrent_uses_input, \
  .configure = recurrent_configure, .run = recurrent_run_all, .work = recurrent_work
#define F32_TACTIC RECURRENT_TACTIC, .reject = recurrent_reject, .prepare = recurrent_prepare
#define F16_TACTIC \
  RECURRENT_TACTIC, .reject = recurrent_f16_reject, .prepare = recurrent_f16_prepare
#define BF16_TACTIC \
  RECURRENT_TACTIC, .reject = recurrent_bf16_reject, .prepare = recurrent_bf16_prepare
CARNOT_CPU_TACTICS(lstm_f32, F32_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_F16_TACTICS(lstm_f16, F16_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_BF16_TACTICS(lstm_bf16, BF16_TACTIC, .anchor = CARNOT_OP_LSTM);
CARNOT_CPU_TACTICS(gru_f32, F32_TACTIC, .anchor = CARNOT_OP_GRU);
CARNOT_CPU_F16_TACTICS(gru_f16, F16_TACTIC, .anchor = CARNOT_OP_GRU);
CARNOT_CPU_BF16_TACTICS(gru_bf16, BF16_TACTIC, .anchor = CARNOT_OP_GRU);
