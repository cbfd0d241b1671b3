// Reads a problem line: a graph, random inputs, and the outputs that the interpreter computes.
#include "problem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell_proto.h"
#include "plugin/front.h"

enum { kMaxNodes = 16, kMaxOperands = 32, kMaxNumbers = 256, kMaxOutputs = 8, kMaxFields = 8 };

typedef struct reader {
  const char* at;  // the text left
  carnot_graph* graph;
  data_set* set;
  carnot_node* nodes[kMaxNodes];
  size_t node_count;
  uint32_t random;  // state of the generator
} reader;

static carnot_status* wrong(const reader* r, const char* wanted) {
  return CARNOT_ERROR(INVALID_ARGUMENT, "'%.40s': %s is required", r->at, wanted);
}

// ---- text ----

static void skip_blanks(reader* r) { r->at += strspn(r->at, " \t\r\n"); }

// Takes |c| and the blanks before it.
static bool take(reader* r, char c) {
  skip_blanks(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static carnot_strview take_word(reader* r) {
  skip_blanks(r);
  carnot_strview word = {r->at, 0};
  while (isalnum((unsigned char)r->at[word.size]) || r->at[word.size] == '_') word.size++;
  r->at += word.size;
  return word;
}

// Numbers with commas between; at least one.
static carnot_status* take_numbers(reader* r, double* out, size_t* out_count) {
  *out_count = 0;
  do {
    char* end;
    if (*out_count == kMaxNumbers) return wrong(r, "a shorter list");
    out[*out_count] = strtod(r->at, &end);
    if (end == r->at) return wrong(r, "a number");
    r->at = end;
    ++*out_count;
  } while (take(r, ','));
  return NULL;
}

static carnot_dtype find_dtype(carnot_strview name) {
  int dtype = CARNOT_DTYPE_COUNT - 1;
  while (dtype > 0 && !carnot_view_is(name, carnot_dtype_name((carnot_dtype)dtype))) dtype--;
  return (carnot_dtype)dtype;
}

// ---- operands ----

// Floats in [-1, 1); signed integers in [-8, 8), unsigned ones in [0, 16).
static void fill_random(reader* r, const carnot_tensor* t) {
  const carnot_dtype_kind kind = carnot_dtype_kind_of(t->dtype);
  for (int64_t i = 0; i < carnot_tensor_count(t); i++) {
    r->random = r->random * 1664525u + 1013904223u;
    const uint32_t bits = r->random >> 8;
    if (kind == CARNOT_KIND_FLOAT)
      carnot_store_f64(t->dtype, t->data, (size_t)i, (double)bits / (1 << 23) - 1);
    else
      carnot_store_i64(t->dtype, t->data, (size_t)i,
                       (int64_t)(bits >> 20) - (kind == CARNOT_KIND_INT ? 8 : 0));
  }
}

static carnot_status* fill_numbers(reader* r, const carnot_tensor* t) {
  double numbers[kMaxNumbers];
  size_t count;
  CARNOT_TRY(take_numbers(r, numbers, &count));
  if (count != 1 && count != (size_t)carnot_tensor_count(t)) return wrong(r, "one number each");
  for (int64_t i = 0; i < carnot_tensor_count(t); i++)
    carnot_store_f64(t->dtype, t->data, (size_t)i, numbers[count == 1 ? 0 : i]);
  return take(r, '}') ? NULL : wrong(r, "}");
}

// A type and a shape, with data of random numbers.
static carnot_status* take_tensor(reader* r, carnot_tensor* out) {
  double dims[kMaxNumbers];
  size_t rank = 0, bytes;
  *out = (carnot_tensor){.dtype = find_dtype(take_word(r))};
  if (out->dtype == CARNOT_DTYPE_INVALID) return wrong(r, "a type");
  if (!take(r, '[')) return wrong(r, "[");
  if (!take(r, ']')) {
    CARNOT_TRY(take_numbers(r, dims, &rank));
    if (rank > CARNOT_MAX_RANK || !take(r, ']')) return wrong(r, "]");
  }
  out->rank = (int)rank;
  for (size_t d = 0; d < rank; d++) out->dims[d] = (int64_t)dims[d];
  CARNOT_TRY(carnot_dims_bytes(out->dtype, out->dims, out->rank, &bytes));
  out->data = carnot_arena_alloc(&r->graph->arena, bytes + 1, 1);
  fill_random(r, out);
  return NULL;
}

static carnot_status* add_input(reader* r, const carnot_tensor* tensor, carnot_value** out) {
  char name[16];
  if (r->set->input_count == CASE_MAX_VALUES) return wrong(r, "fewer inputs");
  snprintf(name, sizeof(name), "x%zu", r->set->input_count);
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = tensor->dtype, .rank = tensor->rank};
  for (int d = 0; d < tensor->rank; d++) type.dims[d] = carnot_sym_of(tensor->dims[d]);
  *out = carnot_block_add_param(r->graph->main, name, &type);
  r->set->inputs[r->set->input_count++] =
      (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR, .tensor = *tensor};
  return NULL;
}

// $ or $node or $node.output
static carnot_status* take_result(reader* r, carnot_value** out) {
  size_t node = r->node_count - 1, output = 0;
  if (isdigit((unsigned char)*r->at)) node = strtoul(r->at, (char**)&r->at, 10);
  if (take(r, '.')) output = strtoul(r->at, (char**)&r->at, 10);
  if (node >= r->node_count || output >= (size_t)r->nodes[node]->output_count)
    return wrong(r, "an earlier result");
  *out = r->nodes[node]->outputs[output];
  return NULL;
}

static carnot_status* take_operand(reader* r, carnot_value** out) {
  *out = NULL;
  if (take(r, '_')) return NULL;
  if (take(r, '$')) return take_result(r, out);
  bool is_constant = take(r, '=');
  carnot_tensor tensor;
  CARNOT_TRY(take_tensor(r, &tensor));
  if (!is_constant) return add_input(r, &tensor, out);
  if (take(r, '{')) CARNOT_TRY(fill_numbers(r, &tensor));
  *out = carnot_graph_constant(r->graph->main, NULL, &tensor);
  return NULL;
}

// ---- nodes ----

static const carnot_attr_spec* find_spec(carnot_op op, const char* name) {
  const carnot_attr_spec* spec = carnot_op_get(op)->attrs;
  while (spec && spec->name && strcmp(spec->name, name) != 0) spec++;
  return spec && spec->name ? spec : NULL;
}

// The number of a function or type.
static carnot_status* take_word_number(reader* r, int64_t* out) {
  carnot_strview word = take_word(r);
  carnot_fn fn = carnot_fn_find(word);
  carnot_dtype dtype = find_dtype(word);
  *out = fn < CARNOT_FN_COUNT ? (int64_t)fn : (int64_t)dtype;
  bool found = fn < CARNOT_FN_COUNT || dtype != CARNOT_DTYPE_INVALID;
  CARNOT_CHECK(found, INVALID_ARGUMENT, "there is no function or type " CARNOT_VIEW_FMT,
               CARNOT_VIEW_ARG(word));
  return NULL;
}

static carnot_status* take_value(reader* r, const carnot_attr_spec* spec, carnot_attrs* attrs) {
  carnot_arena* arena = &r->graph->arena;
  double numbers[kMaxNumbers];
  int64_t integers[kMaxNumbers];
  size_t count;
  bool is_word = isalpha((unsigned char)*r->at);
  if (is_word && spec->type == CARNOT_ATTR_INT) {
    CARNOT_TRY(take_word_number(r, &integers[0]));
    carnot_attrs_set_int(attrs, arena, spec->name, integers[0]);
    return NULL;
  }
  if (is_word) {
    carnot_strview word = take_word(r);
    carnot_attrs_set_text(attrs, arena, spec->name, carnot_arena_text(arena, word.data, word.size));
    return NULL;
  }
  CARNOT_TRY(take_numbers(r, numbers, &count));
  for (size_t i = 0; i < count; i++) integers[i] = (int64_t)numbers[i];
  if (spec->type == CARNOT_ATTR_INT)
    carnot_attrs_set_int(attrs, arena, spec->name, integers[0]);
  else if (spec->type == CARNOT_ATTR_INTS)
    carnot_attrs_set_ints(attrs, arena, spec->name, integers, count);
  else if (spec->type == CARNOT_ATTR_FLOAT)
    carnot_attrs_set_float(attrs, arena, spec->name, numbers[0]);
  else
    carnot_attrs_set_floats(attrs, arena, spec->name, numbers, count);
  return NULL;
}

static carnot_status* take_attrs(reader* r, carnot_op op, carnot_attrs* out, int* out_outputs) {
  *out_outputs = 1;
  for (skip_blanks(r); isalpha((unsigned char)*r->at); skip_blanks(r)) {
    char name[64];
    carnot_strview word = take_word(r);
    snprintf(name, sizeof(name), CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(word));
    if (!take(r, '=')) return wrong(r, "=");
    if (strcmp(name, "outputs") == 0) {
      *out_outputs = (int)strtol(r->at, (char**)&r->at, 10);
      if (*out_outputs < 1 || *out_outputs > kMaxOutputs) return wrong(r, "1 to 8 outputs");
      continue;
    }
    const carnot_attr_spec* spec = find_spec(op, name);
    CARNOT_CHECK(spec, INVALID_ARGUMENT, "%s has no attribute %s", carnot_op_get(op)->name, name);
    CARNOT_TRY(take_value(r, spec, out));
  }
  return NULL;
}

static carnot_status* take_operands(reader* r, carnot_value** out, int* out_count) {
  *out_count = 0;
  if (!take(r, '(')) return wrong(r, "(");
  do {
    if (*out_count == kMaxOperands) return wrong(r, "fewer operands");
    CARNOT_TRY(take_operand(r, &out[*out_count]));
    ++*out_count;
  } while (take(r, ','));
  return take(r, ')') ? NULL : wrong(r, ")");
}

// A plugin: its fields are integers.
static carnot_status* take_plugin(reader* r, const char* name) {
  carnot_value *operands[kMaxOperands], *outputs[kMaxOutputs];
  carnot_plugin_field fields[kMaxFields];
  int32_t integers[kMaxFields];
  int operand_count, field_count = 0, output_count = 1;
  carnot_plugin_entry* plugin = carnot_registry_lookup(name, "1", "");
  CARNOT_CHECK(plugin, INVALID_ARGUMENT, "there is no operator or plugin %s", name);
  CARNOT_TRY(take_operands(r, operands, &operand_count));
  for (skip_blanks(r); isalpha((unsigned char)*r->at); skip_blanks(r)) {
    carnot_strview field = take_word(r);
    if (field_count == kMaxFields || !take(r, '=')) return wrong(r, "=");
    integers[field_count] = (int32_t)strtol(r->at, (char**)&r->at, 10);
    fields[field_count] =
        (carnot_plugin_field){carnot_arena_text(&r->graph->arena, field.data, field.size),
                              &integers[field_count], CARNOT_FIELD_INT32, 1};
    if (carnot_view_is(field, "outputs"))
      output_count = integers[field_count];
    else
      field_count++;
  }
  if (output_count < 1 || output_count > kMaxOutputs) return wrong(r, "1 to 8 outputs");
  CARNOT_TRY(carnot_plugin_add(r->graph->main, plugin, NULL, fields, field_count, operands,
                               operand_count, outputs, output_count));
  r->nodes[r->node_count++] = outputs[0]->producer;
  return NULL;
}

static carnot_status* take_node(reader* r) {
  carnot_value* operands[kMaxOperands];
  int operand_count, output_count;
  carnot_attrs attrs = {.count = 0};
  if (r->node_count == kMaxNodes) return wrong(r, "fewer nodes");
  carnot_strview name = take_word(r);
  carnot_op op = carnot_op_find(name);
  if (op == CARNOT_OP_COUNT)
    return take_plugin(r, carnot_arena_text(&r->graph->arena, name.data, name.size));
  CARNOT_TRY(take_operands(r, operands, &operand_count));
  CARNOT_TRY(take_attrs(r, op, &attrs, &output_count));
  return carnot_block_add_node(r->graph->main, op, NULL, &attrs, operands, operand_count, NULL,
                               output_count, &r->nodes[r->node_count++]);
}

carnot_status* problem_read(const char* line, test_case* out) {
  void* set;
  // As cases of ONNX with float32; sums of the problems are short.
  *out = (test_case){.relative = 1e-4, .absolute = 2e-5, .set_count = 1};
  CARNOT_TRY(carnot_graph_create(&out->graph));
  CARNOT_TRY(carnot_calloc(1, sizeof(data_set), "a data set", &set));
  out->sets[0] = set;
  reader r = {.at = line, .graph = out->graph, .set = set, .random = 1};
  do CARNOT_TRY(take_node(&r));
  while (take(&r, ';'));
  skip_blanks(&r);
  if (*r.at) return wrong(&r, "; or the end");
  const carnot_node* last = r.nodes[r.node_count - 1];
  for (int i = 0; i < last->output_count; i++)
    carnot_block_add_output(out->graph->main, last->outputs[i]);
  r.set->output_count = (size_t)last->output_count;
  return case_interpret(out, r.set, r.set->outputs);
}
