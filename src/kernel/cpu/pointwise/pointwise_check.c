// Validation of pointwise programs, which may come from an engine file.
#include <stdbool.h>
#include <stddef.h>

#include "kernel/cpu/pointwise/pointwise.h"

int carnot_pw_arity(int fn) {
  static const struct {
    int8_t arity;
    char types;
  } functions[] = {
#define TYPES_F                           'F'
#define TYPES_N                           'N'
#define TYPES_A                           'A'
#define TYPES_B                           'B'
#define TYPES_I                           'I'
#define FN(NAME, name, arity, types, ...) {arity, TYPES_##types},
#include "base/fn.def"
#undef FN
      {0, 'A'},  // CONSTANT
  };
  if (fn < 0 || fn >= CARNOT_PW_FN_COUNT || functions[fn].types == 'I') return -1;
  return functions[fn].arity;
}

static bool is_byte_zero(int type, int32_t zero_point) {
  if (type == CARNOT_PW_U8) return zero_point >= 0 && zero_point <= 255;
  return type != CARNOT_PW_S8 || (zero_point >= -128 && zero_point <= 127);
}

const char* carnot_pw_check(const carnot_pw_program* p) {
  if (p->instruction_count > CARNOT_PW_MAX_INSTRUCTIONS) return "too many instructions";
  if (p->register_count > CARNOT_PW_MAX_REGISTERS) return "too many registers";
  if (p->input_count > CARNOT_PW_MAX_INPUTS) return "too many inputs";
  if (p->input_count > p->register_count) return "more inputs than registers";
  if (p->output_count < 1) return "no output";
  if (p->output_count > CARNOT_PW_MAX_OUTPUTS) return "too many outputs";
  bool set[CARNOT_PW_MAX_REGISTERS] = {false};
  for (int i = 0; i < p->input_count; ++i) {
    if (p->input_type[i] >= CARNOT_PW_TYPE_COUNT) return "unknown input type";
    if (!is_byte_zero(p->input_type[i], p->input_quant[i].zero_point))
      return "an input's zero point is out of its type's range";
    set[i] = true;
  }
  for (int i = 0; i < p->instruction_count; ++i) {
    const carnot_pw_instruction* in = &p->instructions[i];
    const int arity = carnot_pw_arity(in->fn);
    if (arity < 0) return "unsupported function";
    for (int j = 0; j < 3; ++j) {
      if (in->src[j] >= p->register_count && (j < arity || in->src[j] > 0)) {
        return "operand register out of range";
      }
      if (j < arity && !set[in->src[j]]) return "register read before it is set";
    }
    if (in->dst >= p->register_count) return "result register out of range";
    set[in->dst] = true;
  }
  for (int i = 0; i < p->output_count; ++i) {
    if (p->output_type[i] >= CARNOT_PW_TYPE_COUNT) return "unknown output type";
    if (!is_byte_zero(p->output_type[i], p->output_quant[i].zero_point))
      return "an output's zero point is out of its type's range";
    if (p->output_register[i] >= p->register_count) return "output register out of range";
    if (!set[p->output_register[i]]) return "output register never set";
  }
  return NULL;
}
