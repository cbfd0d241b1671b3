// ConvInteger with constant weights that int8 holds less their zero point. The zero point of the
// activations may be computed in the network.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/integer_conv.h"

enum { kX, kW, kXZero, kWZero };

static const char* read_problem(const carnot_problem* problem, carnot_integer_conv* out,
                                char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CONV_INTEGER || problem->region->node_count != 1) return "";
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE && node->inputs[i] != i) return "operands repeat";
  const carnot_operand_desc *x = &problem->inputs[kX], *x_zero = &problem->inputs[kXZero];
  const bool has_zero = problem->input_count > kXZero && x_zero->kind == CARNOT_VALUE_TENSOR;
  if (!carnot_is_8bit(x->format.dtype)) return "the activations are no tensors of 8 bits";
  if (has_zero && (x_zero->format.dtype != x->format.dtype || x_zero->rank < 0 ||
                   carnot_dims_count(x_zero->dims, x_zero->rank) != 1))
    return "the activations' zero point is not one";
  return carnot_integer_conv_read(problem, node, kX, kW, kWZero, out, reason, size);
}

static const char* conv_integer_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_integer_conv p;
  const char* why = read_problem(problem, &p, reason, size);
  if (!why)
    problem->inputs[kX].format.layout = problem->outputs[0].format.layout =
        CARNOT_LAYOUT_CHANNELS_LAST;
  return why;
}

static carnot_status* conv_integer_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_integer_conv), "parameters", &params));
  const char* why = read_problem(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(carnot_integer_conv);
  return carnot_integer_conv_prepare(problem, kW, kWZero, params, out);
}

static carnot_status* conv_integer_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_integer_conv) && step->input_count >= 2,
               INVALID_MODEL, "%u bytes of parameters and %u inputs, must be %zu and 2 or more",
               step->param_bytes, step->input_count, sizeof(carnot_integer_conv));
  return carnot_integer_conv_validate(step->params, step);
}

static bool conv_integer_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input == kX || input == kXZero;
}

static bool has_zero(const carnot_step_view* step, const carnot_operand* inputs) {
  return step->input_count > kXZero && inputs[kXZero].format.dtype != CARNOT_DTYPE_INVALID;
}

static carnot_status* conv_integer_configure(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* memory,
                                             size_t* out_workspace_bytes) {
  carnot_integer_conv_state* s = memory;
  const carnot_operand* x = &inputs[kX];
  CARNOT_CHECK(carnot_is_8bit(x->format.dtype) && outputs[0].format.dtype == CARNOT_DTYPE_I32,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  CARNOT_CHECK(
      !has_zero(step, inputs) || (inputs[kXZero].format.dtype == x->format.dtype &&
                                  carnot_dims_count(inputs[kXZero].dims, inputs[kXZero].rank) == 1),
      INVALID_MODEL, "the activations' zero point is not one of their type");
  CARNOT_TRY(carnot_integer_conv_configure(step->params, step, x, &outputs[0], s));
  *out_workspace_bytes = s->bytes;
  return NULL;
}

static carnot_status* conv_integer_run_all(const carnot_step_view* step, void* memory,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* workspace,
                                           carnot_executor* executor) {
  const carnot_dtype dtype = inputs[kX].format.dtype;
  const carnot_integer_conv_operands operands = {
      .x = inputs[kX].data,
      .is_signed = dtype == CARNOT_DTYPE_I8,
      .zero = has_zero(step, inputs) ? carnot_load_i64(dtype, inputs[kXZero].data, 0) : 0,
      .y = outputs[0].data,
      .epilogue = {.output = CARNOT_INT8_OUTPUT_S32}};
  carnot_integer_conv_run(step->params, memory, step, &operands, workspace, executor);
  return NULL;
}

#define CONV_INTEGER_TACTIC                                                                 \
  .anchor = CARNOT_OP_CONV_INTEGER, .strided_outputs = true, .reject = conv_integer_reject, \
  .prepare = conv_integer_prepare, .validate = conv_integer_validate,                       \
  .uses_input = conv_integer_uses_input, .configure = conv_integer_configure,               \
  .run = conv_integer_run_all
CARNOT_CPU_TACTICS(conv_integer_u8s8, CONV_INTEGER_TACTIC);
CARNOT_CPU_TACTIC(conv_integer_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, CONV_INTEGER_TACTIC);
