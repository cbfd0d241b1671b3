// Reads functions of one byte, and computes them for every byte by the reference operators.
#include "tactic/problem/byte_function.h"

#include "ops/execute.h"

static bool is_element_wise(carnot_op op) {
  return op == CARNOT_OP_UNARY || op == CARNOT_OP_BINARY || op == CARNOT_OP_TERNARY ||
         op == CARNOT_OP_DEQUANTIZE_LINEAR || op == CARNOT_OP_QUANTIZE_LINEAR;
}

static bool is_data(const carnot_region* region, uint32_t local) {
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].op == CARNOT_OP_DEQUANTIZE_LINEAR && region->nodes[n].inputs[0] == local)
      return true;
  return false;
}

static bool is_known_number(const carnot_operand_desc* t) {
  return carnot_is_known(t) && carnot_tensor_count(t->tensor) == 1;
}

const char* carnot_byte_function_read(const carnot_problem* problem, uint32_t* out_x) {
  const carnot_region* r = problem->region;
  *out_x = CARNOT_PLAN_NONE;
  for (uint32_t n = 0; n < r->node_count; n++)
    if (!is_element_wise(r->nodes[n].op) || r->nodes[n].output_count != 1) return "";
  const carnot_plan_node* last = &r->nodes[r->node_count - 1];
  if (r->node_count < 2 || r->output_count != 1 || last->op != CARNOT_OP_QUANTIZE_LINEAR ||
      r->outputs[0] != last->outputs[0])
    return "";
  if (!carnot_is_8bit(problem->outputs[0].format.dtype)) return "the result is not int8 or uint8";
  for (uint32_t i = 0; i < problem->input_count; i++) {
    if (problem->inputs[i].kind == CARNOT_VALUE_UNKNOWN) continue;
    if (!is_data(r, i)) {
      if (!is_known_number(&problem->inputs[i])) return "an operand is no known single number";
      continue;
    }
    if (*out_x != CARNOT_PLAN_NONE) return "the function has several operands";
    *out_x = i;
  }
  if (*out_x == CARNOT_PLAN_NONE) return "no operand is quantized";
  const carnot_operand_desc *x = &problem->inputs[*out_x], *y = &problem->outputs[0];
  if (!carnot_is_8bit(x->format.dtype)) return "the operand is not int8 or uint8";
  return x->rank >= 0 && x->rank == y->rank ? NULL : "operand and result have several ranks";
}

// ---- the values ----

typedef struct evaluation {
  carnot_call_host host;  // first: the host's functions find the rest
  carnot_arena arena;
  carnot_infer_scratch scratch;
  carnot_rt_value* values;  // by local index
} evaluation;

static carnot_status* take_memory(const carnot_call_host* host, size_t bytes, void** out_memory) {
  evaluation* e = (evaluation*)(uintptr_t)host;
  void* memory;
  CARNOT_TRY(carnot_arena_try(&e->arena, bytes + 64, 1, "values of a table", &memory));
  *out_memory = (void*)carnot_align_up((uintptr_t)memory, 64);
  return NULL;
}

// The bytes in order; other operands as single numbers, whatever their rank is.
static carnot_status* make_inputs(const carnot_problem* problem, uint32_t x, evaluation* e) {
  void* bytes;
  CARNOT_TRY(carnot_arena_try(&e->arena, CARNOT_BYTE_VALUES, 1, "values of a table", &bytes));
  for (int i = 0; i < CARNOT_BYTE_VALUES; i++) ((uint8_t*)bytes)[i] = (uint8_t)i;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    if (problem->inputs[i].kind != CARNOT_VALUE_TENSOR) continue;
    carnot_rt_value* value = &e->values[i];
    value->kind = CARNOT_VALUE_TENSOR;
    value->tensor = (carnot_tensor){.dtype = problem->inputs[i].format.dtype};
    if (i == x) {
      value->tensor.rank = 1;
      value->tensor.dims[0] = CARNOT_BYTE_VALUES;
    }
    value->tensor.data = i == x ? bytes : problem->inputs[i].tensor->data;
  }
  return NULL;
}

enum { kMostOperands = 3 };

static carnot_status* run_node(const carnot_plan_node* node, evaluation* e) {
  const carnot_rt_value* inputs[kMostOperands] = {0};
  carnot_rt_value* output = &e->values[node->outputs[0]];
  CARNOT_CHECK(node->input_count <= kMostOperands, INTERNAL, "%u operands", node->input_count);
  for (uint32_t i = 0; i < node->input_count; i++) {
    const uint32_t local = node->inputs[i];
    if (local != CARNOT_PLAN_NONE && e->values[local].kind == CARNOT_VALUE_TENSOR)
      inputs[i] = &e->values[local];
  }
  return carnot_execute(&e->scratch, carnot_op_get(node->op), &node->attrs, &e->host,
                        (int)node->input_count, inputs, 1, &output);
}

static carnot_status* evaluate(const carnot_problem* problem, uint32_t x, evaluation* e,
                               uint8_t* table) {
  const carnot_region* r = problem->region;
  void* values;
  CARNOT_TRY(carnot_arena_try(&e->arena, r->value_count, sizeof(carnot_rt_value),
                              "values of a table", &values));
  e->values = values;
  CARNOT_TRY(make_inputs(problem, x, e));
  for (uint32_t n = 0; n < r->node_count; n++) CARNOT_TRY(run_node(&r->nodes[n], e));
  const carnot_tensor* result = &e->values[r->outputs[0]].tensor;
  CARNOT_CHECK(carnot_tensor_count(result) == CARNOT_BYTE_VALUES && carnot_is_8bit(result->dtype),
               INTERNAL, "a table of %lld values of %s", (long long)carnot_tensor_count(result),
               carnot_dtype_name(result->dtype));
  memcpy(table, result->data, CARNOT_BYTE_VALUES);
  return NULL;
}

carnot_status* carnot_byte_function_table(const carnot_problem* problem, uint32_t x,
                                          uint8_t table[CARNOT_BYTE_VALUES]) {
  evaluation e = {.host = {.alloc = take_memory}};
  carnot_infer_scratch_init(&e.scratch);
  carnot_status* status = carnot_arena_prepare(&e.arena);
  if (!status) status = evaluate(problem, x, &e, table);
  carnot_infer_scratch_deinit(&e.scratch);
  carnot_arena_deinit(&e.arena);
  return status;
}

// ---- tactics that look values up ----

// Stored in engines.
typedef struct table_params {
  uint32_t x;  // input of the step
} table_params;

const char* carnot_byte_function_reject(carnot_problem* problem, char* reason, size_t size) {
  uint32_t x;
  (void)reason, (void)size;
  const char* why = carnot_byte_function_read(problem, &x);
  if (why) return why;
  problem->outputs[0].format.layout = problem->inputs[x].format.layout;
  return NULL;
}

carnot_status* carnot_byte_function_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *table;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(table_params), "parameters", &params));
  CARNOT_TRY(carnot_arena_try(out->arena, CARNOT_BYTE_VALUES, 1, "a table", &table));
  table_params* p = params;
  const char* why = carnot_byte_function_read(problem, &p->x);
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(carnot_byte_function_table(problem, p->x, table));
  out->params = params;
  out->param_bytes = sizeof(table_params);
  out->constant_count = 1;
  out->constants[0].packing = "u8 table";
  out->constants[0].data = table;
  out->constants[0].bytes = CARNOT_BYTE_VALUES;
  for (uint32_t i = 0; i < problem->input_count; i++)
    if (i != p->x) out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}

carnot_status* carnot_byte_function_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(table_params) && step->constant_count == 1 &&
                   step->constant_bytes[0] == CARNOT_BYTE_VALUES,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 1",
               step->param_bytes, step->constant_count, sizeof(table_params));
  const table_params* p = step->params;
  CARNOT_CHECK(p->x < step->input_count && step->output_count == 1, INVALID_MODEL, "input %u of %u",
               p->x, step->input_count);
  return NULL;
}

uint32_t carnot_byte_function_operand(const carnot_step_view* step) {
  return ((const table_params*)step->params)->x;
}

bool carnot_byte_function_uses_input(const carnot_step_view* step, uint32_t input) {
  return input == carnot_byte_function_operand(step);
}

carnot_status* carnot_byte_function_count(const carnot_operand* x, const carnot_operand* y,
                                          int64_t* out) {
  const int64_t count = carnot_dims_count(x->dims, x->rank);
  int64_t extent = 1;
  CARNOT_CHECK(
      carnot_is_8bit(x->format.dtype) && carnot_is_8bit(y->format.dtype) && x->rank == y->rank,
      INVALID_MODEL, "operands are %s and %s, must be of 8 bits and one rank",
      carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype));
  for (int d = 0; d < x->rank; d++) {
    CARNOT_CHECK(x->dims[d] == y->dims[d] && (x->dims[d] == 1 || x->strides[d] == y->strides[d]),
                 INVALID_ARGUMENT, "dimension %d lies differently on both sides", d);
    if (x->dims[d] > 1) extent += (x->dims[d] - 1) * x->strides[d];
  }
  CARNOT_CHECK(count == 0 || extent == count, INVALID_ARGUMENT, "the elements are not dense");
  *out = count;
  return NULL;
}
