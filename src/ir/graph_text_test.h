// For tests: reads a graph from the text that carnot_graph_print writes, and converts printed text
// to one form in which two graphs can be compared.
//
//   input %0 "x" : float32[batch,3]
//   %1 = relu(%0)
//   %2 = matmul(%1, %3:const float32[3,4]) transB=0
//   output %2 "y"
//
// Dimensions of inputs are numbers or names of symbols. An element-wise function is written by its
// own name. Types of results may be left out: they are inferred. Elements of a constant follow its
// type (":const int64[2]=[0,-1]"); without them they are a fixed pattern. "-" is an absent operand.
// Attributes are integers, floats, text in quotes or lists of numbers, as the operator's row says.
#ifndef CARNOT_IR_GRAPH_TEXT_TEST_H_
#define CARNOT_IR_GRAPH_TEXT_TEST_H_

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"

enum { kGraphTextValues = 256, kGraphTextOperands = 16, kGraphTextSymbols = 16 };

typedef struct graph_text {
  carnot_graph* graph;
  const char* at;
  carnot_value* values[kGraphTextValues];  // by number in the text
  char symbol_names[kGraphTextSymbols][32];
  carnot_sym symbols[kGraphTextSymbols];
  int symbol_count;
  char error[256];  // "" while all is well
} graph_text;

static inline void graph_text_fail(graph_text* t, const char* what) {
  if (!t->error[0]) snprintf(t->error, sizeof(t->error), "%s at '%.40s'", what, t->at);
}

static inline void graph_text_space(graph_text* t) {
  while (*t->at == ' ') t->at++;
}

static inline bool graph_text_take(graph_text* t, const char* text) {
  graph_text_space(t);
  size_t size = strlen(text);
  if (strncmp(t->at, text, size) != 0) return false;
  t->at += size;
  return true;
}

static inline void graph_text_expect(graph_text* t, const char* text) {
  if (!graph_text_take(t, text)) graph_text_fail(t, text);
}

static inline carnot_strview graph_text_word(graph_text* t) {
  graph_text_space(t);
  const char* start = t->at;
  while (isalnum((unsigned char)*t->at) || *t->at == '_') t->at++;
  return (carnot_strview){start, (size_t)(t->at - start)};
}

static inline double graph_text_number(graph_text* t) {
  char* end;
  graph_text_space(t);
  double value = strtod(t->at, &end);
  if (end == t->at) graph_text_fail(t, "a number is wanted");
  t->at = end;
  return value;
}

// "%12": the entry of |values|.
static inline carnot_value** graph_text_value(graph_text* t) {
  graph_text_expect(t, "%");
  long number = strtol(t->at, (char**)(uintptr_t)&t->at, 10);
  if (number >= 0 && number < kGraphTextValues) return &t->values[number];
  graph_text_fail(t, "too many values");
  return &t->values[0];
}

static inline carnot_sym graph_text_dim(graph_text* t) {
  graph_text_space(t);
  if (isdigit((unsigned char)*t->at)) return carnot_sym_of((int64_t)graph_text_number(t));
  carnot_strview name = graph_text_word(t);
  for (int i = 0; i < t->symbol_count; i++)
    if (carnot_view_is(name, t->symbol_names[i])) return t->symbols[i];
  if (!name.size || name.size > 31 || t->symbol_count == kGraphTextSymbols) {
    graph_text_fail(t, "a dimension is wanted");
    return carnot_sym_of(1);
  }
  char* text = t->symbol_names[t->symbol_count];
  memcpy(text, name.data, name.size);
  t->symbols[t->symbol_count] = carnot_sym_new(&t->graph->syms, text, 1, CARNOT_DIM_UNBOUNDED);
  return t->symbols[t->symbol_count++];
}

static inline carnot_type graph_text_type(graph_text* t) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR};
  carnot_strview name = graph_text_word(t);
  for (int d = 1; d < CARNOT_DTYPE_COUNT; d++)
    if (carnot_view_is(name, carnot_dtype_name((carnot_dtype)d))) type.dtype = (carnot_dtype)d;
  if (!type.dtype) graph_text_fail(t, "no such type");
  graph_text_expect(t, "[");
  while (!t->error[0] && !graph_text_take(t, "]") && type.rank < CARNOT_MAX_RANK) {
    if (type.rank) graph_text_expect(t, ",");
    type.dims[type.rank++] = graph_text_dim(t);
  }
  return type;
}

// Elements without text are -3/8, -2/8, … 4/8 in turn, so that none repeats over short rows.
static inline carnot_value* graph_text_constant(graph_text* t) {
  carnot_type type = graph_text_type(t);
  carnot_tensor tensor = {.dtype = type.dtype, .rank = type.rank};
  for (int d = 0; d < type.rank; d++) tensor.dims[d] = type.dims[d].bits;
  int64_t count = carnot_tensor_count(&tensor);
  if (t->error[0] || count > 1 << 20) return graph_text_fail(t, "a constant is too large"), NULL;
  tensor.data = carnot_arena_alloc(&t->graph->arena, carnot_tensor_bytes(&tensor) + 1, 1);
  bool given = graph_text_take(t, "=[");
  for (int64_t i = 0; i < count && !t->error[0]; i++) {
    if (given && i) graph_text_expect(t, ",");
    double value = given ? graph_text_number(t) : (double)(i % 8 - 3) / 8;
    carnot_store_f64(tensor.dtype, tensor.data, (size_t)i, value);
  }
  if (given) graph_text_expect(t, "]");
  return carnot_graph_constant(t->graph->main, NULL, &tensor);
}

static inline int graph_text_list(graph_text* t, double* out, int capacity) {
  int count = 0;
  graph_text_expect(t, "[");
  while (!t->error[0] && !graph_text_take(t, "]") && count < capacity) {
    if (count) graph_text_expect(t, ",");
    out[count++] = graph_text_number(t);
  }
  return count;
}

// "name=value" by what the row says of |name|.
static inline void graph_text_attr(graph_text* t, const carnot_op_row* row, carnot_attrs* attrs) {
  carnot_arena* arena = &t->graph->arena;
  carnot_strview word = graph_text_word(t);
  const char* name = carnot_arena_text(arena, word.data, word.size);
  const carnot_attr_spec* spec = row->attrs;
  while (spec && spec->name && strcmp(spec->name, name) != 0) spec++;
  if (!spec || !spec->name) {
    graph_text_fail(t, "no such attribute");
    return;
  }
  graph_text_expect(t, "=");
  if (spec->type == CARNOT_ATTR_INT) {
    carnot_attrs_set_int(attrs, arena, name, (int64_t)graph_text_number(t));
  } else if (spec->type == CARNOT_ATTR_FLOAT) {
    carnot_attrs_set_float(attrs, arena, name, graph_text_number(t));
  } else if (spec->type == CARNOT_ATTR_STRING && graph_text_take(t, "\"")) {
    size_t size = strcspn(t->at, "\"\n");
    carnot_attrs_set_text(attrs, arena, name, carnot_arena_text(arena, t->at, size));
    t->at += size;
    graph_text_expect(t, "\"");
  } else {
    double list[32];
    int64_t ints[32];
    int count = graph_text_list(t, list, 32);
    for (int i = 0; i < count; i++) ints[i] = (int64_t)list[i];
    if (spec->type == CARNOT_ATTR_INTS)
      carnot_attrs_set_ints(attrs, arena, name, ints, (size_t)count);
    else
      carnot_attrs_set_floats(attrs, arena, name, list, (size_t)count);
  }
}

static inline int graph_text_operands(graph_text* t, carnot_value** out) {
  int count = 0;
  graph_text_expect(t, "(");
  while (!t->error[0] && !graph_text_take(t, ")") && count < kGraphTextOperands) {
    if (count) graph_text_expect(t, ",");
    out[count] = NULL;
    if (!graph_text_take(t, "-")) {
      carnot_value** value = graph_text_value(t);
      if (graph_text_take(t, ":const")) {
        carnot_value* constant = graph_text_constant(t);
        if (!*value) *value = constant;
      }
      if (!*value) graph_text_fail(t, "a value that is not defined");
      out[count] = *value;
    }
    count++;
  }
  return count;
}

// The operator called |name|, or the one that applies the element-wise function |name|.
static inline carnot_op graph_text_op(graph_text* t, carnot_strview name, carnot_attrs* attrs) {
  carnot_op op = carnot_op_find(name);
  carnot_fn fn = carnot_fn_find(name);
  bool is_fn = fn != CARNOT_FN_COUNT && (op == CARNOT_OP_COUNT || op == CARNOT_OP_IDENTITY);
  if (op == CARNOT_OP_IDENTITY) is_fn = false;
  if (!is_fn) return op;
  static const carnot_op kByArity[] = {CARNOT_OP_UNARY, CARNOT_OP_BINARY, CARNOT_OP_TERNARY};
  carnot_attrs_set_int(attrs, &t->graph->arena, "fn", fn);
  return kByArity[carnot_fn_get(fn)->arity - 1];
}

static inline void graph_text_node(graph_text* t) {
  carnot_value** results[kGraphTextOperands];
  const char* names[kGraphTextOperands];
  int count = 0;
  do {
    bool absent = graph_text_take(t, "-");
    results[count] = absent ? NULL : graph_text_value(t);
    names[count++] = absent ? "" : NULL;
  } while (graph_text_take(t, ",") && count < kGraphTextOperands);
  graph_text_expect(t, "=");
  carnot_attrs attrs = {0};
  carnot_strview name = graph_text_word(t);
  carnot_op op = graph_text_op(t, name, &attrs);
  if (op == CARNOT_OP_COUNT) {
    graph_text_fail(t, "no such operator");
    return;
  }
  carnot_value* operands[kGraphTextOperands];
  int operand_count = graph_text_operands(t, operands);
  graph_text_space(t);
  while (!t->error[0] && isalpha((unsigned char)*t->at)) {
    graph_text_attr(t, carnot_op_get(op), &attrs);
    graph_text_space(t);
  }
  if (t->error[0]) return;
  carnot_node* node;
  carnot_status* status = carnot_block_add_node(t->graph->main, op, NULL, &attrs, operands,
                                                operand_count, names, count, &node);
  if (status) {
    graph_text_fail(t, carnot_status_message(status));
    carnot_status_free(status);
    return;
  }
  for (int i = 0; i < count; i++)
    if (results[i]) *results[i] = node->outputs[i];
}

static inline void graph_text_line(graph_text* t) {
  if (graph_text_take(t, "input")) {
    carnot_value** value = graph_text_value(t);
    carnot_strview name = {"x", 1};
    if (graph_text_take(t, "\"")) {
      name = graph_text_word(t);
      graph_text_expect(t, "\"");
    }
    graph_text_expect(t, ":");
    carnot_type type = graph_text_type(t);
    const char* text = carnot_arena_text(&t->graph->arena, name.data, name.size);
    if (!t->error[0]) *value = carnot_block_add_param(t->graph->main, text, &type);
  } else if (graph_text_take(t, "output")) {
    graph_text_space(t);
    while (!t->error[0] && *t->at == '%') {
      carnot_value* value = *graph_text_value(t);
      if (!value) graph_text_fail(t, "a result that is not defined");
      if (graph_text_take(t, "\"")) {
        graph_text_word(t);
        graph_text_expect(t, "\"");
      }
      if (!t->error[0]) carnot_block_add_output(t->graph->main, value);
      graph_text_space(t);
    }
  } else if (*t->at == '%' || *t->at == '-') {
    graph_text_node(t);
  }
}

// The graph that |text| describes, or NULL with the reason in t->error. The caller destroys it.
static inline carnot_graph* graph_text_read(graph_text* t, const char* text) {
  *t = (graph_text){.at = text};
  carnot_status* status = carnot_graph_create(&t->graph);
  carnot_status_free(status);
  if (status) return NULL;
  while (*t->at && !t->error[0]) {
    graph_text_space(t);
    graph_text_line(t);
    t->at += strcspn(t->at, "\n");
    t->at += *t->at == '\n';
  }
  if (!t->error[0]) return t->graph;
  carnot_graph_destroy(t->graph);
  return t->graph = NULL;
}

// |text| with values numbered in order of appearance, without names ("x", # node) and indentation
// but for bodies. Freed by the caller.
static inline char* graph_text_normalize(const char* text) {
  char* out;
  size_t size;
  FILE* file = open_memstream(&out, &size);
  long seen[kGraphTextValues];
  int count = 0;
  if (!file) return NULL;
  while (*text) {
    size_t length = strcspn(text, "\n");
    const char *end = text + length, *at = text;
    for (; at < end && strncmp(at, "  #", 3) != 0; at++) {
      if (at[0] == ' ' && at[1] == '"') {  // a name
        at += 1 + strcspn(at + 2, "\"\n") + 1;
      } else if (at[0] == '%' && isdigit((unsigned char)at[1])) {
        char* after;
        long id = strtol(at + 1, &after, 10);
        int i = 0;
        while (i < count && seen[i] != id) i++;
        if (i == count && count < kGraphTextValues) seen[count++] = id;
        fprintf(file, "%%%d", i);
        at = after - 1;
      } else {
        fputc(*at, file);
      }
    }
    if (length) fputc('\n', file);
    text = *end ? end + 1 : end;
  }
  fclose(file);
  return out;
}

#endif  // CARNOT_IR_GRAPH_TEXT_TEST_H_
