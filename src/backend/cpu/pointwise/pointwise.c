// Element-wise functions and fused chains of them, over any broadcasting, in f32, f16, bf16 and
// bool storage, and between bytes that the region's nodes dequantize and quantize.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/pointwise/nest.h"
#include "backend/cpu/pointwise/program.h"
#include "tactic/problem/byte_function.h"

static bool is_float_cast(const carnot_problem* problem) {
  return problem->region->node_count == 1 &&
         carnot_dtype_is_float(problem->inputs[0].format.dtype) &&
         carnot_dtype_is_float(problem->outputs[0].format.dtype);
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
  carnot_pw_choose_layout(problem);
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

_Static_assert(sizeof(carnot_pw_nest) <= CARNOT_STATE_BYTES, "state is too large");

static carnot_status* pointwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const carnot_pointwise_params* p = step->params;
  const carnot_operand* operands[CARNOT_PW_MAX_INPUTS];
  *out_workspace_bytes = 0;
  for (int i = 0; i < p->program.input_count; i++) {
    operands[i] = &inputs[p->inputs[i]];
    CARNOT_CHECK(carnot_pointwise_type_of(operands[i]->format.dtype) == p->program.input_type[i],
                 INVALID_ARGUMENT, "operand %d has type %s", i,
                 carnot_dtype_name(operands[i]->format.dtype));
  }
  for (uint32_t i = 0; i < step->output_count; i++) {
    bool same = outputs[i].rank == outputs[0].rank &&
                carnot_pointwise_type_of(outputs[i].format.dtype) == p->program.output_type[i];
    for (int d = 0; same && d < outputs[i].rank; d++)
      same = outputs[i].dims[d] == outputs[0].dims[d] &&
             outputs[i].strides[d] == outputs[0].strides[d];
    CARNOT_CHECK(same, INVALID_ARGUMENT, "results of several shapes, types or layouts");
  }
  return carnot_pw_nest_make(memory, p->program.input_count, operands, &outputs[0],
                             p->program.instruction_count);
}

typedef struct pointwise_run {
  const carnot_cpu_kernels* kernels;
  const carnot_pointwise_params* params;
  const carnot_pw_nest* nest;
  const carnot_operand *inputs, *outputs;
} pointwise_run;

static void pointwise_part(void* argument, int64_t part) {
  const pointwise_run* run = argument;
  const carnot_pw_program* program = &run->params->program;
  carnot_pw_operand in[CARNOT_PW_MAX_INPUTS], out[CARNOT_PW_MAX_OUTPUTS];
  carnot_pw_block block;
  carnot_pw_nest_part(run->nest, part, &block);
  for (int i = 0; i < program->input_count; i++)
    in[i] = carnot_pw_nest_in(run->nest, &block, i, &run->inputs[run->params->inputs[i]]);
  for (int i = 0; i < program->output_count; i++)
    out[i] = carnot_pw_nest_out(run->nest, &block, &run->outputs[i]);
  run->kernels->pointwise(program, in, out, block.row0, block.row1, block.n);
}

static carnot_status* pointwise_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  (void)workspace;
  pointwise_run run = {carnot_cpu_kernels_of(step->tactic->isa), step->params, state, inputs,
                       outputs};
  carnot_executor_parallel(executor, carnot_pw_nest_parts(run.nest), pointwise_part, &run);
  return NULL;
}

// Every element is read before it is written.
static bool pointwise_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  (void)input, (void)output;
  return step->output_count == 1;
}

CARNOT_CPU_TACTICS(pointwise_f32, .anchor = CARNOT_OP_COUNT, .strided_outputs = true,
                   .takes_bf16 = true, .reject = pointwise_reject, .prepare = pointwise_prepare,
                   .validate = pointwise_validate, .configure = pointwise_configure,
                   .run = pointwise_run_all, .may_share = pointwise_may_share);
