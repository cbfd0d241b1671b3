// Writes the pointwise program of a region: operands, instructions, results.
#include "backend/cpu/pointwise/program.h"

enum { kMaxNodes = CARNOT_PW_MAX_INSTRUCTIONS };

int carnot_pointwise_type_of(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_F32: return CARNOT_PW_F32;
    case CARNOT_DTYPE_F16: return CARNOT_PW_F16;
    case CARNOT_DTYPE_BF16: return CARNOT_PW_BF16;
    case CARNOT_DTYPE_BOOL: return CARNOT_PW_BOOL;
    case CARNOT_DTYPE_U8: return CARNOT_PW_U8;
    case CARNOT_DTYPE_I8: return CARNOT_PW_S8;
    default: return -1;
  }
}

static const carnot_operand_desc* local_type(const carnot_problem* p, uint32_t local) {
  return local < p->input_count ? &p->inputs[local] : &p->inner[local - p->input_count];
}

// Bytes are the input of a dequantize node or the result of a quantize node.
static bool is_quantized(const carnot_region* region, uint32_t local) {
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (node->op == CARNOT_OP_QUANTIZE_LINEAR && node->outputs[0] == local) return true;
    for (uint32_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] == local && node->op == CARNOT_OP_DEQUANTIZE_LINEAR) return true;
  }
  return false;
}

// A scale or zero point of the region, which its program holds.
static bool is_parameter(const carnot_region* region, uint32_t input) {
  bool read = false;
  for (uint32_t n = 0; n < region->node_count; n++)
    for (uint32_t i = 0; i < region->nodes[n].input_count; i++) {
      if (region->nodes[n].inputs[i] != input) continue;
      if (i == 0 || !carnot_is_conversion(&region->nodes[n])) return false;
      read = true;
    }
  return read;
}

// A float32 result that is stored in another type.
static bool is_stored_result(const carnot_problem* problem, uint32_t local) {
  bool is_result = false;
  for (uint32_t i = 0; i < problem->region->output_count; i++)
    is_result |= problem->region->outputs[i] == local;
  return is_result && problem->has_stored_types;
}

static const char* check_types(const carnot_problem* problem, char* reason, size_t size) {
  const carnot_region* region = problem->region;
  for (uint32_t i = 0; i < region->value_count; i++) {
    const carnot_operand_desc* t = local_type(problem, i);
    if (t->kind == CARNOT_VALUE_UNKNOWN && i < problem->input_count) continue;
    if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
    if (i < problem->input_count && is_parameter(region, i)) continue;
    const int type = carnot_pointwise_type_of(t->format.dtype);
    if (type < 0 || (type >= CARNOT_PW_U8 && !is_quantized(region, i)))
      return carnot_because(reason, size, "no program for %s", carnot_dtype_name(t->format.dtype));
  }
  // FP16 and BF16 round after each operator, a fused chain would not. So inner values are float32.
  for (uint32_t i = problem->input_count; region->node_count > 1 && i < region->value_count; i++)
    if (!is_stored_result(problem, i) && carnot_dtype_is_half(local_type(problem, i)->format.dtype))
      return "a chain in half precision rounds between its operators";
  return NULL;
}

typedef struct maker {
  const carnot_problem* problem;
  carnot_pointwise_params* out;
  int8_t registers[64];  // by local value; -1: none
  int next;
} maker;

static const char* add_input(maker* m, uint32_t input, uint32_t local) {
  carnot_pw_program* program = &m->out->program;
  if (program->input_count == CARNOT_PW_MAX_INPUTS) return "too many operands";
  m->registers[local] = (int8_t)program->input_count;
  m->out->inputs[program->input_count] = (int32_t)input;
  program->input_type[program->input_count++] =
      (uint8_t)carnot_pointwise_type_of(m->problem->inputs[input].format.dtype);
  return NULL;
}

// The scale and zero point of a quantize or dequantize node.
static const char* read_quantization(const carnot_problem* problem, const carnot_plan_node* node,
                                     carnot_dtype stored, carnot_pw_quantization* out, char* reason,
                                     size_t size) {
  const carnot_op_row* row = carnot_op_get(node->op);
  const int64_t precision = carnot_attr_int(row, &node->attrs, "precision");
  const uint32_t zero = node->input_count > 2 ? node->inputs[2] : CARNOT_PLAN_NONE;
  if (node->inputs[1] >= problem->input_count || (precision && precision != CARNOT_DTYPE_F32))
    return "a scale is computed in the region, or of another precision";
  const carnot_operand_desc* scale = &problem->inputs[node->inputs[1]];
  if (!carnot_is_f32_constant(scale) || carnot_tensor_count(scale->tensor) != 1)
    return "a scale is not one known float32 number";
  out->scale = *(const float*)scale->tensor->data;
  out->zero_point = 0;
  if (zero == CARNOT_PLAN_NONE) return NULL;
  const carnot_operand_desc* z = zero < problem->input_count ? &problem->inputs[zero] : NULL;
  if (!z || !carnot_is_known(z) || carnot_tensor_count(z->tensor) != 1 || z->format.dtype != stored)
    return carnot_because(reason, size, "a zero point is not one known %s",
                          carnot_dtype_name(stored));
  out->zero_point = (int32_t)carnot_load_i64(z->format.dtype, z->tensor->data, 0);
  return NULL;
}

// Operands first in the register file: those of functions, and the integers that are dequantized.
static const char* add_inputs(maker* m, char* reason, size_t size) {
  const carnot_problem* problem = m->problem;
  const carnot_region* region = problem->region;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    if (problem->inputs[i].kind != CARNOT_VALUE_TENSOR || is_parameter(region, i) ||
        is_quantized(region, i))
      continue;
    const char* why = add_input(m, i, i);
    if (why) return why;
  }
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (node->op != CARNOT_OP_DEQUANTIZE_LINEAR) continue;
    if (node->inputs[0] >= problem->input_count) return "an inner value is dequantized";
    carnot_pw_quantization* quant = &m->out->program.input_quant[m->out->program.input_count];
    const char* why = add_input(m, node->inputs[0], node->outputs[0]);
    if (!why)
      why = read_quantization(problem, node, problem->inputs[node->inputs[0]].format.dtype, quant,
                              reason, size);
    if (why) return why;
  }
  m->next = m->out->program.input_count;
  return NULL;
}

static const char* add_instruction(maker* m, const carnot_plan_node* node, char* reason,
                                   size_t size) {
  carnot_pw_program* program = &m->out->program;
  if (!carnot_is_pointwise_op(node->op)) return "";
  const carnot_op_row* row = carnot_op_get(node->op);
  // A cast between floating types is the identity: loading and storing convert.
  bool cast = node->op == CARNOT_OP_CAST;
  carnot_fn fn = cast ? CARNOT_FN_IDENTITY : (carnot_fn)carnot_attr_int(row, &node->attrs, "fn");
  if (carnot_pw_arity((int)fn) != (int)node->input_count)
    return carnot_because(reason, size, "no program for %s", carnot_fn_get(fn)->name);
  if (m->next >= CARNOT_PW_MAX_REGISTERS) return "too many registers";
  carnot_pw_instruction* in = &program->instructions[program->instruction_count++];
  *in = (carnot_pw_instruction){.fn = (uint8_t)fn, .dst = (uint8_t)m->next};
  if (!cast) in->a = (float)carnot_attr_float(row, &node->attrs, "alpha");
  if (!cast) in->b = (float)carnot_attr_float(row, &node->attrs, "beta");
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == CARNOT_PLAN_NONE || m->registers[node->inputs[i]] < 0)
      return "an operand is absent";
    in->src[i] = (uint8_t)m->registers[node->inputs[i]];
  }
  m->registers[node->outputs[0]] = (int8_t)m->next++;
  return NULL;
}

static const carnot_plan_node* quantize_making(const carnot_region* region, uint32_t local) {
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].op == CARNOT_OP_QUANTIZE_LINEAR && region->nodes[n].outputs[0] == local)
      return &region->nodes[n];
  return NULL;
}

static const char* add_outputs(maker* m, char* reason, size_t size) {
  const carnot_region* region = m->problem->region;
  carnot_pw_program* program = &m->out->program;
  for (uint32_t i = 0; i < region->output_count; i++) {
    const carnot_plan_node* node = quantize_making(region, region->outputs[i]);
    const int8_t from = m->registers[node ? node->inputs[0] : region->outputs[i]];
    const carnot_dtype dtype = m->problem->outputs[i].format.dtype;
    if (from < 0) return "a result is no value of the program";
    program->output_register[i] = (uint8_t)from;
    program->output_type[i] = (uint8_t)carnot_pointwise_type_of(dtype);
    const char* why =
        node ? read_quantization(m->problem, node, dtype, &program->output_quant[i], reason, size)
             : NULL;
    if (why) return why;
  }
  program->output_count = (uint8_t)region->output_count;
  return NULL;
}

const char* carnot_pointwise_program_make(const carnot_problem* problem, void* params, char* reason,
                                          size_t size) {
  carnot_pointwise_params* out = params;
  const carnot_region* region = problem->region;
  *out = (carnot_pointwise_params){0};
  maker m = {.problem = problem, .out = out};
  if (region->node_count > kMaxNodes || region->value_count > 64) return "the chain is too long";
  if (problem->output_count > CARNOT_PW_MAX_OUTPUTS) return "too many results";
  memset(m.registers, -1, sizeof(m.registers));
  const char* why = check_types(problem, reason, size);
  if (!why) why = add_inputs(&m, reason, size);
  for (uint32_t n = 0; !why && n < region->node_count; n++)
    if (!carnot_is_conversion(&region->nodes[n]))
      why = add_instruction(&m, &region->nodes[n], reason, size);
  if (why) return why;
  out->program.register_count = (uint8_t)m.next;
  why = add_outputs(&m, reason, size);
  return why ? why : carnot_pw_check(&out->program);
}
