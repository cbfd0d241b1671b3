// Applies requested layer precisions and the types of network inputs and outputs to the graph.
#include "pass/precision_constraints.h"

#include <fnmatch.h>
#include <stdio.h>

#include "pass/pass.h"

typedef struct typer {
  const carnot_precision_constraints* typing;
  carnot_precision_log* log;
  void* user;
  bool* layer_found;  // by request
  bool* output_found;
} typer;

static void warn(const typer* t, const char* format, const char* a, const char* b) {
  char text[512];
  snprintf(text, sizeof(text), format, a, b);
  if (t->log) t->log(t->user, 1, text);
}

// True when |pattern| names the node or a part of it: its name, or one that a profile lists for a
// fused layer ("conv1 + relu1").
static bool names_part(const char* pattern, const char* name) {
  if (fnmatch(pattern, name, FNM_NOESCAPE) == 0) return true;
  size_t size = strlen(name);
  for (const char *at = pattern, *end; at; at = end ? end + 3 : NULL) {
    end = strstr(at, " + ");
    if (!end && at == pattern) return false;
    if ((end ? (size_t)(end - at) : strlen(at)) == size && memcmp(at, name, size) == 0) return true;
  }
  return false;
}

static bool names_node(const char* pattern, const carnot_node* node) {
  bool found = node->name && names_part(pattern, node->name);
  for (size_t i = 0; i < node->absorbed_count && !found; i++)
    found = names_part(pattern, node->absorbed[i].name);
  return found;
}

// The last request that names |node|.
static const carnot_precision_request* request_for(const carnot_precision_request* requests,
                                                   size_t count, const carnot_node* node,
                                                   bool* found) {
  const carnot_precision_request* last = NULL;
  for (size_t i = 0; i < count; i++) {
    if (!names_node(requests[i].pattern, node)) continue;
    found[i] = true;
    last = &requests[i];
  }
  return last;
}

static bool gives_floats(const carnot_node* node) {
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i] && carnot_dtype_is_float(node->outputs[i]->type.dtype)) return true;
  return false;
}

// A request that cannot hold: an error under OBEY, else a warning.
static carnot_status* refuse(const typer* t, const carnot_node* node, carnot_dtype dtype,
                             const char* why, bool* out_holds) {
  *out_holds = false;
  CARNOT_CHECK(t->typing->constraints != CARNOT_CONSTRAINTS_OBEY, INVALID_ARGUMENT,
               "layer %s cannot obey the request for %s: %s", node->name, carnot_dtype_name(dtype),
               why);
  char text[256];
  snprintf(text, sizeof(text), "the request for %s is left out: %s", carnot_dtype_name(dtype), why);
  warn(t, "layer %s: %s", node->name, text);
  return NULL;
}

static carnot_status* check_int8(const typer* t, const carnot_node* node, bool* out_holds) {
  const char* why = NULL;
  if (!t->typing->i8)
    why = "the configuration does not allow it (INT8, --int8, with ranges of the tensors)";
  else if (!carnot_takes_qdq(node))
    why =
        "8 bits are for convolutions and GEMMs with constant weights, and what is fused with them";
  return why ? refuse(t, node, CARNOT_DTYPE_I8, why, out_holds) : NULL;
}

static carnot_status* check_request(const typer* t, const carnot_node* node, carnot_dtype dtype,
                                    bool is_layer, bool* out_holds) {
  *out_holds = true;
  if (is_layer && dtype == CARNOT_DTYPE_I8) return check_int8(t, node, out_holds);
  if (dtype == CARNOT_DTYPE_F32) return NULL;
  if (!carnot_dtype_is_half(dtype))
    return refuse(t, node, dtype,
                  is_layer ? "float32, float16, bfloat16 and int8 can be asked for"
                           : "float32, float16 and bfloat16 can be asked for",
                  out_holds);
  if (!(dtype == CARNOT_DTYPE_F16 ? t->typing->f16 : t->typing->bf16))
    return refuse(t, node, dtype,
                  dtype == CARNOT_DTYPE_F16 ? "the configuration does not allow it (FP16, --fp16)"
                                            : "the configuration does not allow it (BF16, --bf16)",
                  out_holds);
  return NULL;
}

static carnot_status* take_layer(typer* t, carnot_node* node) {
  const carnot_precision_constraints* typing = t->typing;
  const carnot_precision_request* request =
      request_for(typing->layers, typing->layer_count, node, t->layer_found);
  // Layers on integers (shapes, indices) go on as they are: '*' does not mean them.
  if (request && gives_floats(node)) node->precision = request->types[0];
  bool holds;
  if (node->precision) {
    CARNOT_TRY(check_request(t, node, node->precision, /*is_layer=*/true, &holds));
    if (!holds) node->precision = CARNOT_DTYPE_INVALID;
  }
  request = request_for(typing->outputs, typing->output_count, node, t->output_found);
  for (int i = 0; i < node->output_count; i++) {
    carnot_value* value = node->outputs[i];
    if (!value) continue;
    if (request && carnot_dtype_is_float(value->type.dtype))
      value->forced_dtype = request->types[i < request->type_count ? i : request->type_count - 1];
    if (!value->forced_dtype || value->forced_dtype == value->type.dtype ||
        !carnot_dtype_is_float(value->type.dtype))
      continue;
    CARNOT_TRY(check_request(t, node, value->forced_dtype, /*is_layer=*/false, &holds));
    if (!holds) value->forced_dtype = CARNOT_DTYPE_INVALID;
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  for (carnot_node* node = block->first; node; node = node->next)
    CARNOT_TRY(take_layer(user, node));
  return NULL;
}

static carnot_status* drop_requests(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    node->precision = CARNOT_DTYPE_INVALID;
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) node->outputs[i]->forced_dtype = CARNOT_DTYPE_INVALID;
  }
  return NULL;
}

// ---- the network's own inputs and results ----

static carnot_dtype listed_type(const carnot_dtype* types, size_t count, size_t i) {
  return count == 1 ? types[0] : i < count ? types[i] : CARNOT_DTYPE_INVALID;
}

static carnot_status* check_interface(const char* what, const carnot_value* value,
                                      carnot_dtype dtype) {
  CARNOT_CHECK(carnot_dtype_is_float(dtype) && carnot_dtype_is_float(value->type.dtype),
               INVALID_ARGUMENT, "%s %s is %s and cannot become %s", what, value->name,
               carnot_dtype_name(value->type.dtype), carnot_dtype_name(dtype));
  return NULL;
}

static carnot_status* set_input_type(carnot_block* main, carnot_value* param, carnot_dtype dtype) {
  if (!dtype || dtype == param->type.dtype) return NULL;
  CARNOT_TRY(check_interface("input", param, dtype));
  if (!main->first) return NULL;
  carnot_dtype inside = param->type.dtype;
  param->type.dtype = dtype;
  carnot_value* cast;
  CARNOT_TRY(carnot_insert_cast(main->first, param, inside, &cast));
  carnot_node* node = cast->producer;
  carnot_value_replace(param, cast);
  carnot_node_set_input(node, 0, param);
  return NULL;
}

static carnot_status* set_result_type(carnot_block* main, size_t index, carnot_dtype dtype) {
  carnot_value* value = main->outputs[index];
  if (!dtype) dtype = value->forced_dtype;
  if (!dtype || dtype == value->type.dtype) return NULL;
  CARNOT_TRY(check_interface("output", value, dtype));
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &main->graph->arena, "to", dtype);
  carnot_node* node;
  CARNOT_TRY(carnot_block_add_node(main, CARNOT_OP_CAST, NULL, &attrs, &value, 1, NULL, 1, &node));
  carnot_block_set_output(main, index, node->outputs[0]);
  return NULL;
}

static carnot_status* apply(typer* t, carnot_graph* graph) {
  const carnot_precision_constraints* typing = t->typing;
  carnot_block* main = graph->main;
  bool reads = typing->constraints != CARNOT_CONSTRAINTS_NONE && !typing->strong;
  CARNOT_TRY(carnot_each_block(main, reads ? visit : drop_requests, t));
  for (size_t i = 0; i < typing->layer_count && reads; i++)
    if (!t->layer_found[i])
      warn(t, "the request for layer %s is left out: there is no layer of that name%s",
           typing->layers[i].pattern, "");
  for (size_t i = 0; i < typing->output_count && reads; i++)
    if (!t->output_found[i])
      warn(t, "the request for outputs of %s is left out: there is no layer of that name%s",
           typing->outputs[i].pattern, "");
  CARNOT_CHECK(typing->input_type_count <= 1 || typing->input_type_count == main->param_count,
               INVALID_ARGUMENT, "%zu types for the %zu inputs of the network",
               typing->input_type_count, main->param_count);
  CARNOT_CHECK(typing->result_type_count <= 1 || typing->result_type_count == main->output_count,
               INVALID_ARGUMENT, "%zu types for the %zu outputs of the network",
               typing->result_type_count, main->output_count);
  for (size_t i = 0; i < main->param_count; i++)
    CARNOT_TRY(set_input_type(main, main->params[i],
                              listed_type(typing->input_types, typing->input_type_count, i)));
  for (size_t i = 0; i < main->output_count; i++)
    CARNOT_TRY(
        set_result_type(main, i, listed_type(typing->result_types, typing->result_type_count, i)));
  return NULL;
}

carnot_status* carnot_precision_constraints_apply(carnot_graph* graph,
                                                  const carnot_precision_constraints* typing,
                                                  carnot_precision_log* log, void* user) {
  CARNOT_CHECK(
      !typing->strong ||
          !(typing->f16 || typing->bf16 || typing->layer_count || typing->output_count),
      INVALID_ARGUMENT,
      "a strongly typed network takes its types from the model: FP16, BF16 and requests for "
      "layers contradict it");
  typer t = {.typing = typing, .log = log, .user = user};
  t.layer_found = CARNOT_NEW_ARRAY(&graph->arena, bool, typing->layer_count + 1);
  t.output_found = CARNOT_NEW_ARRAY(&graph->arena, bool, typing->output_count + 1);
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  return apply(&t, graph);
}
