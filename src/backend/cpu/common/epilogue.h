// The epilogue of a region: the pointwise operators behind its anchor (a GEMM, a convolution, a
// normalization), as plain data that the engine stores.
#ifndef CARNOT_BACKEND_CPU_COMMON_EPILOGUE_H_
#define CARNOT_BACKEND_CPU_COMMON_EPILOGUE_H_

#include "backend/cpu/common/cpu.h"
#include "tactic/problem/epilogue.h"

enum { CARNOT_EPILOGUE_MAX_OPERANDS = CARNOT_PW_MAX_INPUTS - 1 };

typedef enum carnot_epilogue_operand_shape {
  CARNOT_EPILOGUE_FULL,
  CARNOT_EPILOGUE_CHANNEL,
  CARNOT_EPILOGUE_SCALAR
} carnot_epilogue_operand_shape;

// Plain data, stored in the engine. The kernel applies act(acc + bias + residual) in registers;
// then the program runs over the output tile.
typedef struct carnot_epilogue_plan {
  int32_t channel_axis;  // of the output, from the end
  int32_t residual;      // input of the step, -1: none
  int32_t activation;    // carnot_kernel_activation
  float a, b;
  int32_t operand_count;
  struct {
    int32_t input;  // of the step
    int32_t shape;  // carnot_epilogue_operand_shape
  } operands[CARNOT_EPILOGUE_MAX_OPERANDS];
  carnot_pw_program program;  // input 0 is the tile; instruction_count 0: none
} carnot_epilogue_plan;

// Reads the nodes behind node |anchor| of the region. |bias| [channels] is added to where constants
// are added per channel; *out_has_bias says whether it has a value (set it before when the anchor
// has a bias). |channel_axis|: the axis of the output that a channel vector runs along, from the
// end (1 is the last). NULL, or why the operators cannot be fused.
const char* carnot_epilogue_plan_make(const carnot_problem* problem, uint32_t anchor,
                                      int channel_axis, float* bias, int64_t channels,
                                      bool* out_has_bias, carnot_epilogue_plan* out, char* reason,
                                      size_t size);
// For carnot_tactic.may_share: a residual that nothing else in the region reads may lie in the
// result, see carnot_epilogue_f32.
bool carnot_epilogue_plan_may_share(const carnot_epilogue_plan* plan, const carnot_step_view* step,
                                    uint32_t input, uint32_t output);
// Checks every field of a plan that comes from an engine file, for a step of |input_count| inputs.
carnot_status* carnot_epilogue_plan_validate(const carnot_epilogue_plan* plan,
                                             uint32_t input_count) CARNOT_MUST_USE;
// True when the epilogue reads elements of this input.
bool carnot_epilogue_plan_uses_input(const carnot_epilogue_plan* plan, uint32_t input);
// Checks that each input of the epilogue has the dimensions and layout of |output|, or |channels|
// elements, or one, and the type that it was made for.
carnot_status* carnot_epilogue_plan_check(const carnot_step_view* step,
                                          const carnot_epilogue_plan* plan,
                                          const carnot_operand* inputs,
                                          const carnot_operand* output,
                                          int64_t channels) CARNOT_MUST_USE;
// Fills the epilogue of a kernel call: bias, residual and activation. It borrows |bias| and the
// data of |inputs|.
void carnot_epilogue_plan_bind(const carnot_epilogue_plan* plan, const carnot_operand* inputs,
                               const float* bias, carnot_epilogue_f32* out);
// Runs the program on rows [m0, m1) and columns [n0, n1) of |data|, rows |ld| apart.
void carnot_epilogue_plan_run(const carnot_cpu_kernels* kernels, const carnot_epilogue_plan* plan,
                              const carnot_operand* inputs, void* data, int64_t ld, int64_t m0,
                              int64_t m1, int64_t n0, int64_t n1);
// The same where channels [0, channels) are rows of |data|, float32, |ld| apart, and pixels [n0,
// n1) its columns. Not for plans with a full operand.
void carnot_epilogue_plan_run_by_channel(const carnot_cpu_kernels* kernels,
                                         const carnot_epilogue_plan* plan,
                                         const carnot_operand* inputs, float* data, int64_t ld,
                                         int64_t channels, int64_t n0, int64_t n1);
// Whether an operand, or the residual, has the shape of the result.
bool carnot_epilogue_plan_has_full_operand(const carnot_epilogue_plan* plan);

// The kernels' activation, a carnot_kernel_activation; NONE: they do not apply it.
int carnot_epilogue_kernel_activation(carnot_fused_activation kind);
// The same activation as an operation of a pointwise program, CARNOT_PW_*; 0 for NONE.
uint8_t carnot_epilogue_activation_fn(const carnot_epilogue_plan* plan);
// The distance in elements of rows (pixels) of a whole operand: that of the innermost dimension
// other than the channels', which run along |channel_axis| from the end.
int64_t carnot_epilogue_row_distance(const carnot_operand* t, int channel_axis);
// Rows follow one another evenly and channels are dense, in the order of |channel_axis|.
bool carnot_epilogue_is_even(const carnot_operand* t, int channel_axis);

#endif  // CARNOT_BACKEND_CPU_COMMON_EPILOGUE_H_
