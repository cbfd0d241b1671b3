// Inputs whose elements decide shapes: found by giving the elements of small integer inputs symbols
// and looking for these in the dimensions that follow.
#include "builder/internal.h"

// May be a list of dimensions: int32 or int64, a scalar or a list of known length.
static bool may_be_shape(const carnot_value* input) {
  const carnot_type* t = &input->type;
  if (t->kind != CARNOT_VALUE_TENSOR ||
      (t->dtype != CARNOT_DTYPE_I32 && t->dtype != CARNOT_DTYPE_I64))
    return false;
  if (t->rank == 0) return true;
  return t->rank == 1 && carnot_sym_is_const(t->dims[0]) && t->dims[0].bits >= 1 &&
         t->dims[0].bits <= CARNOT_MAX_SHAPE_ELEMENTS;
}

static carnot_status* name_elements(carnot_graph* graph, carnot_value* input) {
  size_t count = input->type.rank ? (size_t)input->type.dims[0].bits : 1;
  input->syms = CARNOT_NEW_ARRAY(&graph->arena, carnot_sym, count);
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  input->sym_count = count;
  for (size_t i = 0; i < count; i++)
    input->syms[i] = carnot_sym_new(&graph->syms, NULL, 1, CARNOT_DIM_UNBOUNDED);
  return carnot_syms_status(&graph->syms);
}

static void forget_elements(carnot_value* input) {
  input->syms = NULL;
  input->sym_count = 0;
}

static carnot_status* infer_all(const carnot_graph* graph) {
  for (carnot_node* node = graph->main->first; node; node = node->next)
    CARNOT_TRY(carnot_node_infer(node));
  return NULL;
}

// By expression: does it hold an element of |input|?
static void find_elements(const carnot_syms* syms, const carnot_value* input, bool* holds) {
  memset(holds, 0, syms->count);
  for (size_t i = 0; i < input->sym_count; i++) holds[carnot_sym_index(input->syms[i])] = true;
  for (size_t i = 0; i < syms->count; i++) {
    const carnot_sym_expr* e = &syms->items[i];
    if (e->op == CARNOT_SYM_SYMBOL || e->op == CARNOT_SYM_F_CONST) continue;
    carnot_sym operands[3] = {e->a, e->b, e->c};
    for (int k = 0; k < carnot_sym_arity(e->op); k++)
      holds[i] |= !carnot_sym_is_const(operands[k]) && holds[carnot_sym_index(operands[k])];
  }
}

static bool decides_shapes(const carnot_graph* graph, const carnot_value* input, bool* holds) {
  find_elements(&graph->syms, input, holds);
  for (const carnot_node* node = graph->main->first; node; node = node->next)
    for (int o = 0; o < node->output_count; o++) {
      const carnot_value* value = node->outputs[o];
      if (!value || value->type.kind != CARNOT_VALUE_TENSOR) continue;
      for (int d = 0; d < value->type.rank; d++)
        if (!carnot_sym_is_const(value->type.dims[d]) &&
            holds[carnot_sym_index(value->type.dims[d])])
          return true;
    }
  return false;
}

// The profiles' bounds of the elements: all of them give some, and none allows what means more than
// a size (0 and -1 of a reshape).
static bool is_bounded(const carnot_build_config* config, const carnot_value* input) {
  for (size_t p = 0; p < config->profile_count; p++) {
    const carnot_profile_input* given = carnot_profile_find(&config->profiles[p], input->name);
    if (!given || given->value_count != input->sym_count) return false;
    for (size_t i = 0; i < given->value_count; i++)
      if (given->values[0][i] < 1) return false;
  }
  return config->profile_count > 0;
}

static carnot_status* check_values(const carnot_build_config* config, const carnot_value* input,
                                   bool is_shape) {
  for (size_t p = 0; p < config->profile_count; p++) {
    const carnot_profile_input* given = carnot_profile_find(&config->profiles[p], input->name);
    if (!given || !given->value_count) continue;
    CARNOT_CHECK(is_shape, INVALID_ARGUMENT,
                 "profile %zu bounds the elements of input %s, which decide no shapes", p,
                 input->name);
    CARNOT_CHECK(given->value_count == input->sym_count, INVALID_ARGUMENT,
                 "profile %zu bounds %u elements of input %s, which has %zu", p, given->value_count,
                 input->name, input->sym_count);
  }
  return NULL;
}

// Elements with bounds stay symbols; those of other inputs are known when shapes are set.
static carnot_status* settle(carnot_builder* builder, const bool* was_candidate) {
  carnot_graph* graph = builder->graph;
  void* holds;
  CARNOT_TRY(
      carnot_arena_try(&graph->arena, graph->syms.count + 1, sizeof(bool), "symbols", &holds));
  for (size_t i = 0; i < graph->main->param_count; i++) {
    carnot_value* input = graph->main->params[i];
    builder->shape_inputs[i] = was_candidate[i] && decides_shapes(graph, input, holds);
    CARNOT_TRY(check_values(builder->config, input, builder->shape_inputs[i]));
  }
  for (size_t i = 0; i < graph->main->param_count; i++)
    if (!builder->shape_inputs[i] || !is_bounded(builder->config, graph->main->params[i]))
      forget_elements(graph->main->params[i]);
  return infer_all(graph);
}

carnot_status* carnot_find_shape_inputs(carnot_builder* builder) {
  carnot_graph* graph = builder->graph;
  carnot_block* main = graph->main;
  builder->shape_inputs = CARNOT_NEW_ARRAY(&graph->arena, bool, main->param_count + 1);
  bool* candidate = CARNOT_NEW_ARRAY(&graph->arena, bool, main->param_count + 1);
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  bool any = false;
  for (size_t i = 0; i < main->param_count; i++) {
    candidate[i] = may_be_shape(main->params[i]);
    any |= candidate[i];
    if (candidate[i]) CARNOT_TRY(name_elements(graph, main->params[i]));
  }
  if (!any) {
    for (size_t i = 0; i < main->param_count; i++)
      CARNOT_TRY(check_values(builder->config, main->params[i], false));
    return NULL;
  }
  carnot_status* status = infer_all(graph);
  if (!status) return settle(builder, candidate);
  if (carnot_status_code(status) == CARNOT_OUT_OF_MEMORY) return status;
  // Elements that are no sizes do not fit as such: nothing is known of them before the run.
  carnot_status_free(status);
  for (size_t i = 0; i < main->param_count; i++)
    if (candidate[i]) forget_elements(main->params[i]);
  return infer_all(graph);
}

carnot_status* carnot_graph_shape_input(const carnot_graph* graph, const carnot_value* input,
                                        bool* out_is_shape) {
  *out_is_shape = false;
  static const carnot_build_config kNoProfiles = {0};
  carnot_builder builder = {.config = &kNoProfiles};
  CARNOT_TRY(carnot_graph_clone(graph, &builder.graph));
  carnot_status* status = carnot_find_shape_inputs(&builder);
  for (size_t i = 0; !status && i < graph->main->param_count; i++)
    if (graph->main->params[i] == input) *out_is_shape = builder.shape_inputs[i];
  carnot_graph_destroy(builder.graph);
  return status;
}
