// Residuals and activations behind the primitives of oneDNN.
#include "backend/cpu/onednn/onednn_pass.h"

#include <math.h>

static uint8_t type_of(int64_t dtype) {
  return dtype == CARNOT_DTYPE_BF16 ? CARNOT_PW_BF16 : CARNOT_PW_F32;
}

// The activation over the result as it lies there: ReLU, or a clip between zero and a number that
// the type holds. Sets |*limit|.
static bool is_rectifier(const carnot_onednn_parts* parts, const carnot_onednn_result* result,
                         float* limit) {
  const carnot_epilogue_plan* plan = result->plan;
  *limit = plan->activation == CARNOT_KERNEL_ACTIVATION_CLIP ? plan->b : INFINITY;
  uint32_t bits;
  memcpy(&bits, limit, sizeof(bits));
  const bool is_held = result->dtype == CARNOT_DTYPE_F32 || (bits & 0xffff) == 0;
  return !parts->is_staged && (plan->activation == CARNOT_KERNEL_ACTIVATION_RELU ||
                               (plan->activation == CARNOT_KERNEL_ACTIVATION_CLIP && plan->a == 0 &&
                                plan->b >= 0 && is_held));
}

// What follows the primitives otherwise: the residual, where they do not add it, and the
// activation. Register 0 is what they wrote.
static carnot_pw_program program_of(const carnot_onednn_parts* parts,
                                    const carnot_onednn_result* result) {
  const carnot_epilogue_plan* plan = result->plan;
  const bool adds = parts->is_staged && result->residual != CARNOT_DTYPE_INVALID;
  carnot_pw_program p = {.input_count = adds ? 2 : 1, .output_count = 1};
  p.input_type[0] = type_of(parts->items[0].shape.dst_dtype);
  p.input_type[1] = type_of(result->residual);
  p.output_type[0] = type_of(result->dtype);
  uint8_t next = p.input_count;
  if (adds)
    p.instructions[p.instruction_count++] =
        (carnot_pw_instruction){.fn = CARNOT_PW_ADD, .dst = next++, .src = {0, 1}};
  if (plan->activation != CARNOT_KERNEL_ACTIVATION_NONE) {
    p.instructions[p.instruction_count++] = (carnot_pw_instruction){
        .fn = carnot_epilogue_activation_fn(plan),
        .dst = next,
        .src = {adds ? (uint8_t)(next - 1) : 0},
        .a = plan->activation == CARNOT_KERNEL_ACTIVATION_SILU ? 1 : plan->a,
        .b = plan->b};
    next++;
  }
  p.register_count = next;
  p.output_register[0] = (uint8_t)(next - 1);
  return p;
}

carnot_onednn_pass carnot_onednn_pass_of(const carnot_onednn_parts* parts,
                                         const carnot_onednn_result* result) {
  carnot_onednn_pass pass = {.program = program_of(parts, result),
                             .is_bf16 = result->dtype == CARNOT_DTYPE_BF16};
  pass.rectifies = is_rectifier(parts, result, &pass.limit);
  return pass;
}

static void store_rows(const carnot_onednn_tile* tile, int64_t element_bytes) {
  const size_t row = (size_t)(tile->columns * element_bytes);
  for (int64_t i = 0; i < tile->rows; i++)
    memcpy((char*)tile->dst + i * tile->ld * element_bytes, (char*)tile->stage + (size_t)i * row,
           row);
}

void carnot_onednn_pass_run(const carnot_cpu_kernels* kernels, const carnot_onednn_pass* pass,
                            const carnot_onednn_tile* tile) {
  if (pass->rectifies && pass->is_bf16) {
    kernels->rectify_bf16(tile->rows, tile->columns, tile->dst, tile->ld, pass->limit);
  } else if (pass->rectifies) {
    kernels->rectify_f32(tile->rows, tile->columns, tile->dst, tile->ld, pass->limit);
  } else if (pass->program.instruction_count) {
    const carnot_pw_operand out = {tile->dst, tile->ld, 1},
                            staged = {tile->stage, tile->columns, 1},
                            in[2] = {tile->stage ? staged : out, {tile->residual, tile->ld, 1}};
    kernels->pointwise(&pass->program, in, &out, 0, tile->rows, tile->columns);
  } else if (tile->stage) {
    store_rows(tile, pass->is_bf16 ? 2 : 4);
  }
}
