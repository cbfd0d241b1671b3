// Element-wise functions and fused chains of them, over any broadcasting, in f32, f16, bf16 and
// bool storage, and between bytes that the region's nodes dequantize and quantize.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/pointwise/program.h"
#include "tactic/problem/byte_function.h"

static bool is_float_cast(const carnot_problem* problem) {
  return problem->region->node_count == 1 &&
         carnot_dtype_is_float(problem->inputs[0].format.dtype) &&
         carnot_dtype_is_float(problem->outputs[0].format.dtype);
}

// Channels last is chosen when a full-size operand has it and all others can be read in its order.
static carnot_layout choose_layout(const carnot_problem* problem) {
  const carnot_operand_desc* out = &problem->outputs[0];
  bool wanted = false;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind != CARNOT_VALUE_TENSOR) continue;
    if (t->rank == out->rank && !t->is_constant) {
      wanted |= t->format.layout == CARNOT_LAYOUT_CHANNELS_LAST;
      continue;
    }
    // Read in row-major order: only one of channels and pixels may vary.
    bool channels = false, pixels = false;
    for (int d = 0; d < t->rank; d++) {
      int at = d + out->rank - t->rank;
      bool varies = t->dims[d] != 1 || t->max[d] != 1;
      if (at == 1) channels |= varies;
      if (at > 1) pixels |= varies;
    }
    if (channels && pixels) return CARNOT_LAYOUT_ROW_MAJOR;
  }
  return wanted && out->rank > 2 ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
}

// Pointwise nodes, with at least one that is no conversion of type; or bytes quantized again.
static bool is_chain(const carnot_problem* problem) {
  const carnot_region* region = problem->region;
  uint32_t conversions = 0;
  for (uint32_t n = 0; n < region->node_count; n++) {
    if (!carnot_is_pointwise_op(region->nodes[n].op) && !carnot_is_conversion(&region->nodes[n]))
      return false;
    conversions += carnot_is_conversion(&region->nodes[n]);
  }
  if (conversions == region->node_count) return conversions == 2;
  return region->nodes[0].op != CARNOT_OP_CAST || is_float_cast(problem);
}

static const char* pointwise_reject(carnot_problem* problem, char* reason, size_t size) {
  uint32_t byte;
  if (!is_chain(problem)) return "";
  if (!carnot_byte_function_read(problem, &byte)) return "a table holds its 256 values";
  carnot_pointwise_params p;
  const char* why = carnot_pointwise_program_make(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 1; i < problem->output_count; i++)
    if (problem->outputs[i].rank != problem->outputs[0].rank ||
        memcmp(problem->outputs[i].dims, problem->outputs[0].dims,
               sizeof(int64_t) * (size_t)problem->outputs[0].rank) != 0)
      return "results of several shapes";
  carnot_layout layout = choose_layout(problem);
  for (uint32_t i = 0; i < problem->input_count; i++) {
    bool whole =
        problem->inputs[i].rank == problem->outputs[0].rank && !problem->inputs[i].is_constant;
    problem->inputs[i].format.layout = whole ? layout : CARNOT_LAYOUT_ROW_MAJOR;
  }
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.layout = layout;
  return NULL;
}

static carnot_status* pointwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, carnot_pointwise_program_make,
                                   sizeof(carnot_pointwise_params), out);
}

static carnot_status* pointwise_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_pointwise_params) && step->constant_count == 0,
               INVALID_MODEL, "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_pointwise_params));
  const carnot_pointwise_params* p = step->params;
  const char* why = carnot_pw_check(&p->program);
  CARNOT_CHECK(!why, INVALID_MODEL, "the pointwise program is invalid: %s", why);
  CARNOT_CHECK(p->program.output_count == step->output_count, INVALID_MODEL, "%d results of %u",
               p->program.output_count, step->output_count);
  for (int i = 0; i < p->program.input_count; i++)
    CARNOT_CHECK(p->inputs[i] >= 0 && p->inputs[i] < (int64_t)step->input_count, INVALID_MODEL,
                 "operand %d is input %d of %u", i, p->inputs[i], step->input_count);
  return NULL;
}

// The loop nest: dimensions from the outermost in memory order, the last two run inside the kernel.
typedef struct pointwise_state {
  int rank;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t in[CARNOT_PW_MAX_INPUTS][CARNOT_MAX_RANK];
  int64_t out[CARNOT_MAX_RANK];
  int64_t outer, rows, n, rows_per_part, parts_per_outer;
} pointwise_state;
_Static_assert(sizeof(pointwise_state) <= CARNOT_STATE_BYTES, "state is too large");

static carnot_status* operand_strides(const carnot_operand* t, const carnot_operand* out,
                                      int64_t* strides) {
  CARNOT_CHECK(t->rank <= out->rank, INVALID_ARGUMENT,
               "an operand of rank %d for a result of rank %d", t->rank, out->rank);
  for (int d = 0; d < out->rank; d++) {
    int at = d - (out->rank - t->rank);
    int64_t dim = at < 0 ? 1 : t->dims[at];
    CARNOT_CHECK(dim == 1 || dim == out->dims[d], INVALID_ARGUMENT,
                 "an operand's dimension %d is %lld, must be 1 or %lld", d, (long long)dim,
                 (long long)out->dims[d]);
    strides[d] = dim == 1 ? 0 : t->strides[at];
  }
  return NULL;
}

// Dimensions of the result by falling stride, without those of size 1.
static int order_dims(const carnot_operand* out, int* order) {
  int count = 0;
  for (int d = 0; d < out->rank; d++) {
    if (out->dims[d] == 1) continue;
    int at = count++;
    for (; at > 0 && out->strides[order[at - 1]] < out->strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  return count;
}

static bool joins(const pointwise_state* s, int inputs, const int64_t* out,
                  const int64_t (*in)[CARNOT_MAX_RANK], int d, int64_t dim) {
  int last = s->rank - 1;
  if (s->out[last] != out[d] * dim) return false;
  for (int i = 0; i < inputs; i++)
    if (s->in[i][last] != in[i][d] * dim) return false;
  return true;
}

static carnot_status* build_nest(pointwise_state* s, int inputs, const carnot_operand* out,
                                 const int64_t (*in)[CARNOT_MAX_RANK]) {
  int order[CARNOT_MAX_RANK];
  int count = order_dims(out, order);
  s->rank = 0;
  for (int k = 0; k < count; k++) {
    int d = order[k];
    int64_t dim = out->dims[d];
    bool joined = s->rank > 0 && joins(s, inputs, out->strides, in, d, dim);
    int at = joined ? s->rank - 1 : s->rank++;
    s->dims[at] = joined ? s->dims[at] * dim : dim;
    s->out[at] = out->strides[d];
    for (int i = 0; i < inputs; i++) s->in[i][at] = in[i][d];
  }
  if (s->rank == 0 || s->out[s->rank - 1] != 1) {
    CARNOT_CHECK(s->rank < CARNOT_MAX_RANK, INVALID_ARGUMENT,
                 "the result's innermost dimension is not dense");
    s->dims[s->rank] = 1;
    s->out[s->rank] = 1;
    for (int i = 0; i < inputs; i++) s->in[i][s->rank] = 0;
    s->rank++;
  }
  for (int i = 0; i < inputs; i++)
    CARNOT_CHECK(s->in[i][s->rank - 1] == 0 || s->in[i][s->rank - 1] == 1, INVALID_ARGUMENT,
                 "an operand has stride %lld in the innermost dimension",
                 (long long)s->in[i][s->rank - 1]);
  return NULL;
}

static carnot_status* pointwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  pointwise_state* s = memory;
  const carnot_pointwise_params* p = step->params;
  *out_workspace_bytes = 0;
  int64_t in[CARNOT_PW_MAX_INPUTS][CARNOT_MAX_RANK];
  for (int i = 0; i < p->program.input_count; i++) {
    const carnot_operand* t = &inputs[p->inputs[i]];
    CARNOT_CHECK(carnot_pointwise_type_of(t->format.dtype) == p->program.input_type[i],
                 INVALID_ARGUMENT, "operand %d has type %s", i, carnot_dtype_name(t->format.dtype));
    CARNOT_TRY(operand_strides(t, &outputs[0], in[i]));
  }
  for (uint32_t i = 0; i < step->output_count; i++) {
    bool same = outputs[i].rank == outputs[0].rank &&
                carnot_pointwise_type_of(outputs[i].format.dtype) == p->program.output_type[i];
    for (int d = 0; same && d < outputs[i].rank; d++)
      same = outputs[i].dims[d] == outputs[0].dims[d] &&
             outputs[i].strides[d] == outputs[0].strides[d];
    CARNOT_CHECK(same, INVALID_ARGUMENT, "results of several shapes, types or layouts");
  }
  CARNOT_TRY(
      build_nest(s, p->program.input_count, &outputs[0], (const int64_t(*)[CARNOT_MAX_RANK])in));
  s->n = s->dims[s->rank - 1];
  s->rows = s->rank > 1 ? s->dims[s->rank - 2] : 1;
  s->outer = s->rank > 2 ? carnot_dims_count(s->dims, s->rank - 2) : 1;
  // One long row is cut like many: it is dense or constant in every operand.
  if (s->rows == 1 && s->outer == 1 && s->n > 1 << 14) {
    s->rows_per_part = 1 << 13;
    s->parts_per_outer = carnot_ceildiv(s->n, s->rows_per_part);
  } else {
    s->rows_per_part = carnot_min_i64(
        s->rows, carnot_rows_per_part(s->rows * s->outer, s->n * p->program.instruction_count));
    s->parts_per_outer = carnot_ceildiv(s->rows, s->rows_per_part);
  }
  return NULL;
}

typedef struct pointwise_run {
  const carnot_cpu_kernels* kernels;
  const carnot_pointwise_params* params;
  const pointwise_state* state;
  const carnot_operand *inputs, *outputs;
} pointwise_run;

static char* at_element(const carnot_operand* t, int64_t index) {
  return (char*)t->data + index * (carnot_dtype_bits(t->format.dtype) / 8);
}

static void pointwise_part(void* argument, int64_t part) {
  const pointwise_run* run = argument;
  const pointwise_state* s = run->state;
  const carnot_pw_program* program = &run->params->program;
  carnot_pw_operand in[CARNOT_PW_MAX_INPUTS], out[CARNOT_PW_MAX_OUTPUTS];
  int64_t outer = part / s->parts_per_outer, piece = part % s->parts_per_outer;
  bool one_row = s->rows == 1 && s->outer == 1 && s->parts_per_outer > 1;
  int64_t start = one_row ? piece * s->rows_per_part : 0, out_at = start,
          in_at[CARNOT_PW_MAX_INPUTS];
  for (int i = 0; i < program->input_count; i++) in_at[i] = start * s->in[i][s->rank - 1];
  int64_t rest = outer;
  for (int d = s->rank - 3; d >= 0; d--) {
    int64_t index = rest % s->dims[d];
    rest /= s->dims[d];
    out_at += index * s->out[d];
    for (int i = 0; i < program->input_count; i++) in_at[i] += index * s->in[i][d];
  }
  for (int i = 0; i < program->input_count; i++)
    in[i] = (carnot_pw_operand){at_element(&run->inputs[run->params->inputs[i]], in_at[i]),
                                s->rank > 1 ? s->in[i][s->rank - 2] : 0, s->in[i][s->rank - 1]};
  for (int i = 0; i < program->output_count; i++)
    out[i] = (carnot_pw_operand){at_element(&run->outputs[i], out_at),
                                 s->rank > 1 ? s->out[s->rank - 2] : 0, 1};
  if (one_row) {
    run->kernels->pointwise(program, in, out, 0, 1, carnot_min_i64(s->rows_per_part, s->n - start));
    return;
  }
  int64_t row0 = piece * s->rows_per_part;
  run->kernels->pointwise(program, in, out, row0, carnot_min_i64(row0 + s->rows_per_part, s->rows),
                          s->n);
}

static carnot_status* pointwise_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  (void)workspace;
  pointwise_run run = {carnot_cpu_kernels_of(step->tactic->isa), step->params, state, inputs,
                       outputs};
  carnot_executor_parallel(executor, run.state->outer * run.state->parts_per_outer, pointwise_part,
                           &run);
  return NULL;
}

CARNOT_CPU_TACTICS(pointwise_f32, .anchor = CARNOT_OP_COUNT, .strided_outputs = true,
                   .takes_bf16 = true, .reject = pointwise_reject, .prepare = pointwise_prepare,
                   .validate = pointwise_validate, .configure = pointwise_configure,
                   .run = pointwise_run_all);
