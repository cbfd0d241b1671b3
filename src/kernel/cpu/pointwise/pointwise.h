// Chains of element-wise functions as small programs, run over tiles that stay in L1.
// A program has float registers r0, r1, …: the first |input_count| hold the inputs, each
// instruction sets one register from up to three, the outputs are registers. All arithmetic is f32;
// truth values are 1 and 0, and any number but 0 is true. Types of memory: f32, f16, bf16, bool
// (one byte), and u8 and s8 quantized with one scale and zero point:
//   load  (x - zero_point) * scale
//   store min(max(rint(v / scale) + zero_point, least), most) of the type, rint(NaN) = 0
//   element (i,j), i < rows, j < n, of an operand is data[i * row_stride + j * stride], stride 0 or
//   1
// A call computes rows [row0,row1); disjoint calls may run at once. An output may be an input with
// the same layout. Any thread.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_POINTWISE_H_
#define CARNOT_KERNEL_CPU_POINTWISE_POINTWISE_H_

#include <stdint.h>

// Function codes: the order of base/fn.def, then what only programs have.
typedef enum carnot_pw_fn {
#define FN(NAME, ...) CARNOT_PW_##NAME,
#include "base/fn.def"
#undef FN
  CARNOT_PW_CONSTANT,  // a; no operand
  CARNOT_PW_FN_COUNT
} carnot_pw_fn;

enum {
  CARNOT_PW_MAX_INSTRUCTIONS = 64,
  CARNOT_PW_MAX_REGISTERS = 24,
  CARNOT_PW_MAX_INPUTS = 12,
  CARNOT_PW_MAX_OUTPUTS = 4,
};

typedef enum carnot_pw_type {
  CARNOT_PW_F32,
  CARNOT_PW_F16,
  CARNOT_PW_BF16,
  CARNOT_PW_BOOL,
  CARNOT_PW_U8,
  CARNOT_PW_S8,
  CARNOT_PW_TYPE_COUNT
} carnot_pw_type;

typedef struct carnot_pw_instruction {
  uint8_t fn;      // carnot_pw_fn
  uint8_t dst;     // register
  uint8_t src[3];  // registers; 0 where the function has fewer operands
  float a, b;      // parameters, see fn.def
} carnot_pw_instruction;

typedef struct carnot_pw_quantization {
  float scale;
  int32_t zero_point;
} carnot_pw_quantization;

typedef struct carnot_pw_program {
  uint8_t instruction_count, register_count, input_count, output_count;
  uint8_t input_type[CARNOT_PW_MAX_INPUTS];  // carnot_pw_type
  uint8_t output_type[CARNOT_PW_MAX_OUTPUTS];
  uint8_t output_register[CARNOT_PW_MAX_OUTPUTS];
  carnot_pw_quantization input_quant[CARNOT_PW_MAX_INPUTS];  // of types u8 and s8
  carnot_pw_quantization output_quant[CARNOT_PW_MAX_OUTPUTS];
  carnot_pw_instruction instructions[CARNOT_PW_MAX_INSTRUCTIONS];
} carnot_pw_program;

typedef struct carnot_pw_operand {
  void* data;  // inputs are only read
  int64_t row_stride;
  int64_t stride;  // 0 or 1; an output's is 1
} carnot_pw_operand;

// NULL if every count, type, function and register of the program is in range, no register is read
// before it is set, and all functions are supported; else what is wrong. Programs from outside pass
// through here before they run.
const char* carnot_pw_check(const carnot_pw_program* program);

// How many operands a function takes; -1 if programs do not support it (integer functions).
int carnot_pw_arity(int fn);

// |inputs| and |outputs| have input_count and output_count entries; n > 0.
typedef void carnot_pointwise_fn(const carnot_pw_program* program, const carnot_pw_operand* inputs,
                                 const carnot_pw_operand* outputs, int64_t row0, int64_t row1,
                                 int64_t n);

#endif
