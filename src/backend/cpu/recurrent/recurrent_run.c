// LSTM, GRU and RNN over float32 with constant weights: one GEMM of the input for all time steps,
// then for each time step a GEMM of the state and one pointwise program. Directions, and blocks of
// sequences, run at once.
//   gates[t,b] = x[t,b] * W^T + bias;  then the formulas of ONNX LSTM-22, GRU-22 and
//   RNN-22
#include "backend/cpu/recurrent/recurrent.h"

static bool is_lstm(const carnot_step_view* step) {
  return carnot_cpu_recurrent_node(step->region)->op == CARNOT_OP_LSTM;
}

typedef struct recurrent_state {
  int64_t time, batch, block, blocks;  // sequences of a part, parts of a direction
  carnot_work_partition partition;     // of the GEMM of the input
} recurrent_state;

// The step's output that is output |i| of the operator; NULL when nothing uses it.
static const carnot_operand* output_of(const carnot_step_view* step, const carnot_operand* outputs,
                                       uint32_t i) {
  uint32_t k = carnot_step_output(step, carnot_cpu_recurrent_node(step->region), i);
  return k == CARNOT_PLAN_NONE ? NULL : &outputs[k];
}

static const carnot_operand* initial_of(const carnot_step_view* step, const carnot_operand* inputs,
                                        uint32_t i) {
  const carnot_plan_node* node = carnot_cpu_recurrent_node(step->region);
  return carnot_cpu_recurrent_has(node, i) ? &inputs[node->inputs[i]] : NULL;
}

static carnot_status* check_states(const carnot_cpu_recurrent_params* p, const recurrent_state* s,
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

// Floats of a part: h, c, the gates, what the reset gate multiplies, and h and c before a step.
static int64_t part_floats(const carnot_cpu_recurrent_params* p, const recurrent_state* s) {
  return s->block * (4 + 2 * p->gates) * p->hidden;
}

static carnot_status* check_mask(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* x) {
  const carnot_operand* mask = initial_of(step, inputs, kMask);
  CARNOT_CHECK(!mask || (mask->format.dtype == CARNOT_DTYPE_BOOL && mask->rank == 2 &&
                         mask->dims[0] == x->dims[0] && mask->dims[1] == x->dims[1]),
               INVALID_ARGUMENT, "the mask is no BOOL tensor of %lld by %lld elements",
               (long long)x->dims[0], (long long)x->dims[1]);
  return NULL;
}

carnot_status* carnot_cpu_recurrent_configure(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs, void* memory,
                                              size_t* out_workspace_bytes) {
  const carnot_cpu_recurrent_params* p = step->params;
  recurrent_state* s = memory;
  const carnot_operand* x = &inputs[carnot_cpu_recurrent_node(step->region)->inputs[kX]];
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
  CARNOT_TRY(check_mask(step, inputs, x));
  int64_t rows = s->time * s->batch;
  const int64_t columns = carnot_cpu_recurrent_columns(p);
  const carnot_split_work work = {rows, columns, p->input, 1, CARNOT_SPLIT_ROWS, CARNOT_SPLIT_ROWS,
                                  0};
  s->partition =
      carnot_packed_weights_split((carnot_weights_type)p->weights)
          ? carnot_work_partition_make_split(step->threads, &work)
          : carnot_work_partition_make(step->tactic->isa, step->threads, rows, columns, p->input);
  s->block = carnot_ceildiv(s->batch, carnot_max_i64(1, carnot_min_i64(8, s->batch / 4)));
  s->blocks = carnot_ceildiv(s->batch, s->block);
  *out_workspace_bytes =
      (size_t)(rows * columns + part_floats(p, s) * s->blocks * p->directions) * sizeof(float);
  return NULL;
}

typedef struct recurrent_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_cpu_recurrent_params* params;
  const recurrent_state* state;
  const carnot_operand *x, *initial_h, *initial_c, *y, *last_h, *last_c;
  const uint8_t* mask;  // by step and sequence; NULL: every step counts
  float *input_gates, *scratch;
} recurrent_run;

static void input_part(void* argument, int64_t part) {
  const recurrent_run* run = argument;
  const carnot_cpu_recurrent_params* p = run->params;
  int64_t m0, m1, n0, n1, columns = carnot_cpu_recurrent_columns(p);
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
  carnot_packed_weights_gemm(run->kernels, (carnot_weights_type)p->weights)(&gemm, m0, m1, n0, n1);
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
// Input h before its activation; output h.
static const carnot_pw_program kRnn = {.instruction_count = 1,
                                       .register_count = 2,
                                       .input_count = 1,
                                       .output_count = 1,
                                       .output_register = {1},
                                       .instructions = {FN1(TANH, 1, 0)}};

// One part: the sequences [first, first + count) of a direction.
typedef struct sequences {
  const recurrent_run* run;
  int64_t direction, first, count;
  float *h, *c, *gates, *reset, *kept;
} sequences;

static carnot_pw_operand rows_of(const float* data, int64_t ld) {
  return (carnot_pw_operand){(void*)(uintptr_t)data, ld, 1};
}

// dst = a * R^T (+ x) for |gates| gates from |from| on; |x| NULL: the state's bias instead.
static void project(const sequences* q, const float* a, int64_t from, int64_t gates, const float* x,
                    int64_t x_ld, float* dst) {
  const carnot_cpu_recurrent_params* p = q->run->params;
  int64_t h = p->hidden, n = gates * h;
  const char* packed = (const char*)q->run->step->constants[kPackedR] +
                       (size_t)q->direction * carnot_cpu_recurrent_r_bytes(p) +
                       (from ? carnot_cpu_recurrent_first_r_bytes(p) : 0);
  carnot_gemm_f32 gemm = {
      .m = q->count, .n = n, .k = h, .a = a, .lda = h, .b = packed, .c = dst, .ldc = p->gates * h};
  if (x)
    gemm.epilogue = (carnot_epilogue_f32){.residual = x, .residual_ld = x_ld};
  else
    gemm.epilogue.bias =
        (const float*)q->run->step->constants[kStateBias] + q->direction * p->gates * h + from * h;
  carnot_packed_weights_gemm(q->run->kernels, carnot_cpu_recurrent_r_type(p))(&gemm, 0, q->count, 0,
                                                                              n);
}

static void advance(const sequences* q, const float* x, int64_t x_ld) {
  const carnot_cpu_recurrent_params* p = q->run->params;
  const carnot_cpu_kernels* kernels = q->run->kernels;
  int64_t h = p->hidden, ld = p->gates * h, n = q->count;
  float* g = q->gates;
  const carnot_pw_operand h_out[2] = {rows_of(q->c, h), rows_of(q->h, h)};
  if (p->gates == 4) {
    project(q, q->h, 0, 4, x, x_ld, g);
    const carnot_pw_operand in[5] = {rows_of(g, ld), rows_of(g + h, ld), rows_of(g + 2 * h, ld),
                                     rows_of(g + 3 * h, ld), rows_of(q->c, h)};
    kernels->pointwise(&kLstm, in, h_out, 0, n, h);
  } else if (p->gates == 1) {
    project(q, q->h, 0, 1, x, x_ld, g);
    const carnot_pw_operand in = rows_of(g, ld);
    kernels->pointwise(&kRnn, &in, h_out + 1, 0, n, h);
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
  const carnot_cpu_recurrent_params* p = q->run->params;
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
  const carnot_cpu_recurrent_params* p = run->params;
  for (int64_t i = 0; run->y && i < q->count; i++) {
    int64_t b = q->first + i, batch = run->state->batch;
    int64_t row = p->batch_first ? (b * run->state->time + t) * p->directions + q->direction
                                 : (t * p->directions + q->direction) * batch + b;
    memcpy((float*)run->y->data + row * p->hidden, q->h + i * p->hidden,
           (size_t)p->hidden * sizeof(float));
  }
}

// Whether step |t| of sequence |i| of the part counts.
static bool counts(const sequences* q, int64_t t, int64_t i) {
  const recurrent_run* run = q->run;
  const int64_t b = q->first + i;
  return run->mask[run->params->batch_first ? b * run->state->time + t : t * run->state->batch + b];
}

// Copies h and c of the sequences that step |t| leaves out aside, or back.
static void keep_states(const sequences* q, int64_t t, bool back) {
  const int64_t n = q->run->params->hidden;
  const size_t bytes = (size_t)n * sizeof(float);
  for (int64_t i = 0; q->run->mask && i < q->count; i++) {
    if (counts(q, t, i)) continue;
    float *h = q->h + i * n, *c = q->c + i * n, *kept = q->kept + 2 * i * n;
    memcpy(back ? h : kept, back ? kept : h, bytes);
    memcpy(back ? c : kept + n, back ? kept + n : c, bytes);
  }
}

static void sequence_part(void* argument, int64_t part) {
  const recurrent_run* run = argument;
  const carnot_cpu_recurrent_params* p = run->params;
  const recurrent_state* s = run->state;
  sequences q = {.run = run, .direction = part / s->blocks, .first = part % s->blocks * s->block};
  q.count = carnot_min_i64(s->block, s->batch - q.first);
  q.h = run->scratch + part * part_floats(p, s);
  q.c = q.h + s->block * p->hidden;
  q.gates = q.c + s->block * p->hidden;
  q.reset = q.gates + s->block * p->gates * p->hidden;
  q.kept = q.reset + s->block * p->gates * p->hidden;
  move_states(&q, run->initial_h, q.h, false);
  move_states(&q, run->initial_c, q.c, false);
  int64_t columns = carnot_cpu_recurrent_columns(p),
          ld = p->batch_first ? s->time * columns : columns;
  bool backward = q.direction == 1 || p->reverse;
  for (int64_t i = 0; i < s->time; i++) {
    int64_t t = backward ? s->time - 1 - i : i;
    int64_t row = p->batch_first ? q.first * s->time + t : t * s->batch + q.first;
    keep_states(&q, t, false);
    advance(&q, run->input_gates + row * columns + q.direction * p->gates * p->hidden, ld);
    keep_states(&q, t, true);
    write_step(&q, t);
  }
  move_states(&q, run->last_h, q.h, true);
  move_states(&q, run->last_c, q.c, true);
}

carnot_status* carnot_cpu_recurrent_run(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  recurrent_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                       .step = step,
                       .params = step->params,
                       .state = state,
                       .input_gates = workspace};
  run.x = &inputs[carnot_cpu_recurrent_node(step->region)->inputs[kX]];
  run.initial_h = initial_of(step, inputs, kInitialH);
  run.initial_c = is_lstm(step) ? initial_of(step, inputs, kInitialC) : NULL;
  const carnot_operand* mask = initial_of(step, inputs, kMask);
  run.mask = mask ? mask->data : NULL;
  run.y = output_of(step, outputs, 0);
  run.last_h = output_of(step, outputs, 1);
  run.last_c = output_of(step, outputs, 2);
  run.scratch = run.input_gates +
                run.state->time * run.state->batch * carnot_cpu_recurrent_columns(run.params);
  carnot_executor_parallel(executor, carnot_work_partition_count(&run.state->partition), input_part,
                           &run);
  carnot_executor_parallel(executor, run.params->directions * run.state->blocks, sequence_part,
                           &run);
  return NULL;
}
