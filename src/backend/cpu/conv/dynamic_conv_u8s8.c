// Convolution by constant int8 weights of activations that the run quantizes: range, quantization,
// sums in INT32, scale, bias, residual, activation and the quantization of the result in one step.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/integer_conv.h"
#include "backend/cpu/quantize/dynamic_operands.h"

// Stored in engines.
typedef struct dynamic_params {
  carnot_integer_conv conv;
  carnot_dynamic_operands operands;
} dynamic_params;

static const carnot_plan_node* conv_of(const carnot_region* region) {
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].op == CARNOT_OP_CONV_INTEGER) return &region->nodes[n];
  return NULL;
}

static const char* read_problem(const carnot_problem* problem, carnot_dynamic_gemm* view,
                                dynamic_params* out, char* reason, size_t size) {
  const char* why = carnot_dynamic_gemm_read(problem, CARNOT_OP_CONV_INTEGER, view);
  if (why) return why;
  *out = (dynamic_params){.operands = {0}};
  why = carnot_integer_conv_read(problem, conv_of(problem->region), view->x, view->weights,
                                 view->w_zero, &out->conv, reason, size);
  return why ? why
             : carnot_dynamic_operands_read(problem, view, out->conv.window.rank + 1,
                                            &out->operands, reason, size);
}

static const char* dynamic_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_dynamic_gemm view;
  dynamic_params p;
  const char* why = read_problem(problem, &view, &p, reason, size);
  if (!why) carnot_dynamic_operands_set_layouts(problem, &view, CARNOT_LAYOUT_CHANNELS_LAST);
  return why;
}

static carnot_status* dynamic_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  char reason[256];
  carnot_dynamic_gemm view;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(dynamic_params), "parameters", &params));
  const char* why = read_problem(problem, &view, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(dynamic_params);
  return carnot_integer_conv_prepare(problem, view.weights, view.w_zero,
                                     &((const dynamic_params*)params)->conv, out);
}

static carnot_status* dynamic_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(dynamic_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(dynamic_params));
  const dynamic_params* p = step->params;
  CARNOT_TRY(carnot_dynamic_operands_validate(&p->operands, step));
  return carnot_integer_conv_validate(&p->conv, step);
}

static bool dynamic_uses_input(const carnot_step_view* step, uint32_t input) {
  return carnot_dynamic_operands_uses(&((const dynamic_params*)step->params)->operands, input);
}

typedef struct dynamic_state {
  carnot_dynamic_offsets offsets;
  carnot_integer_conv_state conv;
} dynamic_state;

static bool is_packed_channels_last(const carnot_operand* t) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, t->rank, t->dims, strides);
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] > 1 && t->strides[d] != strides[d]) return false;
  return true;
}

static carnot_status* dynamic_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  const dynamic_params* p = step->params;
  dynamic_state* s = memory;
  const carnot_operand *x = &inputs[p->operands.x], *y = &outputs[0];
  CARNOT_CHECK(!p->operands.quantizes || is_packed_channels_last(x), INVALID_MODEL,
               "the input is not contiguous");
  CARNOT_TRY(carnot_integer_conv_configure(&p->conv, step, x, y, &s->conv));
  CARNOT_TRY(carnot_dynamic_operands_configure(&p->operands, inputs, outputs, p->conv.filters,
                                               s->conv.parts, &s->offsets));
  *out_workspace_bytes = s->offsets.end + s->conv.bytes;
  return NULL;
}

static carnot_status* dynamic_run_all(const carnot_step_view* step, void* memory,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  const dynamic_params* p = step->params;
  const dynamic_state* s = memory;
  const carnot_dynamic_run run = {.operands = &p->operands,
                                  .offsets = &s->offsets,
                                  .kernels = carnot_cpu_kernels_of(step->tactic->isa),
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .workspace = workspace,
                                  .executor = executor};
  const carnot_dynamic_activations a = carnot_dynamic_operands_begin(&run);
  const carnot_integer_conv_operands operands = {
      .x = a.x, .is_signed = a.is_signed, .zero = a.zero, .y = a.y, .epilogue = a.epilogue};
  carnot_integer_conv_run(&p->conv, &s->conv, step, &operands, (char*)workspace + s->offsets.end,
                          executor);
  carnot_dynamic_operands_end(&run);
  return NULL;
}

#define DYNAMIC_TACTIC                                                                        \
  .anchor = CARNOT_OP_CONV_INTEGER, .strided_outputs = true, .reject = dynamic_reject,        \
  .prepare = dynamic_prepare, .validate = dynamic_validate, .uses_input = dynamic_uses_input, \
  .configure = dynamic_configure, .run = dynamic_run_all
CARNOT_CPU_TACTICS(dynamic_conv_u8s8, DYNAMIC_TACTIC);
CARNOT_CPU_TACTIC(dynamic_conv_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, DYNAMIC_TACTIC);
