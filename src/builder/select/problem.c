// From a node of the graph (one operator, or a fused region) to the problem that tactics are asked
// about.
#include "backend/device.h"
#include "builder/internal.h"

static carnot_status* eval_dim(carnot_builder* builder, carnot_sym dim, bool guess, int64_t* out) {
  carnot_status* status = carnot_sym_eval(
      &builder->graph->syms, dim, guess ? builder->guess_values : builder->symbol_values,
      guess ? builder->guess_known : builder->symbol_known, out);
  if (!status) return NULL;
  // Decided while running: tactics must take any.
  carnot_status_free(status);
  *out = -1;
  return NULL;
}

static carnot_status* describe(carnot_builder* builder, const carnot_value* value, bool guess,
                               carnot_operand_desc* out) {
  *out = (carnot_operand_desc){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
  if (!value) return NULL;
  out->kind = value->type.kind;
  out->format.dtype = value->type.dtype;
  out->rank = value->type.rank;
  for (int d = 0; d < out->rank; d++) {
    CARNOT_TRY(eval_dim(builder, value->type.dims[d], guess, &out->dims[d]));
    carnot_sym_range(&builder->graph->syms, value->type.dims[d], &out->min[d], &out->max[d]);
  }
  out->format.layout = builder->layouts[value->id];
  out->format.memory = builder->places[value->id];
  out->is_constant = value->constant != NULL;
  if (value->constant) out->tensor = &value->constant->tensor;
  return NULL;
}

typedef struct locals {
  carnot_builder* builder;
  bool guess;
  uint32_t* of_value;  // by value id: local + 1
  uint32_t next;
  carnot_operand_desc* types;  // of the locals beyond the inputs
  uint32_t input_count;
} locals;

static carnot_status* add_node(locals* l, const carnot_node* node, carnot_plan_node* out) {
  carnot_arena* arena = &l->builder->plan->arena;
  out->op = node->op;
  out->name = node->name;
  out->attrs = node->attrs;
  out->input_count = (uint32_t)node->input_count;
  out->output_count = (uint32_t)node->output_count;
  uint32_t* inputs = CARNOT_NEW_ARRAY(arena, uint32_t, out->input_count + 1);
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, out->output_count + 1);
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    inputs[i] = value ? l->of_value[value->id] - 1 : CARNOT_PLAN_NONE;
    CARNOT_CHECK(!value || l->of_value[value->id], INTERNAL,
                 "node %s reads %s, which its region does not hold", node->name, value->name);
  }
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) {
      outputs[i] = CARNOT_PLAN_NONE;
      continue;
    }
    CARNOT_TRY(
        describe(l->builder, node->outputs[i], l->guess, &l->types[l->next - l->input_count]));
    outputs[i] = l->next;
    l->of_value[node->outputs[i]->id] = ++l->next;
  }
  out->inputs = inputs;
  out->outputs = outputs;
  return NULL;
}

static uint32_t count_outputs(const carnot_node* node) {
  uint32_t count = 0;
  for (int i = 0; i < node->output_count; i++) count += node->outputs[i] != NULL;
  return count;
}

static carnot_status* fill_region(locals* l, carnot_node* node, carnot_region* region) {
  carnot_arena* arena = &l->builder->plan->arena;
  const carnot_attr* body =
      node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
  const carnot_node* first = body ? body->block->first : node;
  uint32_t value_count = 0;
  for (const carnot_node* n = first; n; n = body ? n->next : NULL) {
    region->node_count++;
    value_count += count_outputs(n);
  }
  region->nodes = CARNOT_NEW_ARRAY(arena, carnot_plan_node, region->node_count);
  l->types = CARNOT_NEW_ARRAY(arena, carnot_operand_desc, value_count + 1);
  uint32_t at = 0;
  for (const carnot_node* n = first; n; n = body ? n->next : NULL)
    CARNOT_TRY(add_node(l, n, &region->nodes[at++]));
  region->value_count = l->next;
  region->output_count = 0;
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, (uint32_t)node->output_count + 1);
  for (int i = 0; i < node->output_count; i++) {
    const carnot_value* value = body ? body->block->outputs[i] : node->outputs[i];
    if (!node->outputs[i]) continue;
    outputs[region->output_count++] = l->of_value[value->id] - 1;
  }
  region->outputs = outputs;
  return NULL;
}

// A layer that shall be float32 keeps the whole region so; one that shall be a half type asks for
// it.
static void set_precision(const carnot_builder* builder, const carnot_node* node,
                          carnot_problem* out) {
  const carnot_attr* body =
      node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
  bool keeps = false;
  for (const carnot_node* n = body ? body->block->first : node; n; n = body ? n->next : NULL) {
    keeps |= n->precision == CARNOT_DTYPE_F32;
    if (n->precision && n->op != CARNOT_OP_CAST) out->requested_precision = n->precision;
  }
  if (keeps) out->requested_precision = CARNOT_DTYPE_F32;
  bool half = carnot_dtype_is_half(out->requested_precision);
  out->may_f16 =
      !keeps && (half ? out->requested_precision == CARNOT_DTYPE_F16 : builder->config->typing.f16);
  out->may_bf16 = !keeps && (half ? out->requested_precision == CARNOT_DTYPE_BF16
                                  : builder->config->typing.bf16);
  // New weights need not be exact in float16.
  out->exact_f16 = !keeps && !out->may_f16 && !builder->config->refit && !builder->config->strip;
}

bool carnot_region_holds(const carnot_region* region, carnot_op op) {
  if (op == CARNOT_OP_COUNT) return true;
  for (uint32_t i = 0; i < region->node_count; i++)
    if (region->nodes[i].op == op) return true;
  return false;
}

carnot_status* carnot_make_problem(carnot_builder* builder, carnot_node* node, bool guess,
                                   carnot_choice* out) {
  carnot_arena* arena = &builder->plan->arena;
  *out = (carnot_choice){.node = node};
  uint32_t input_count = (uint32_t)node->input_count, output_count = count_outputs(node);
  void* table;
  CARNOT_TRY(carnot_arena_try(&builder->scratch, builder->graph->value_count + 1, sizeof(uint32_t),
                              "locals", &table));
  locals l = {.builder = builder,
              .guess = guess,
              .of_value = table,
              .next = input_count,
              .input_count = input_count};
  out->inputs = CARNOT_NEW_ARRAY(arena, carnot_value*, input_count + 1);
  out->outputs = CARNOT_NEW_ARRAY(arena, carnot_value*, output_count + 1);
  out->problem.inputs = CARNOT_NEW_ARRAY(arena, carnot_operand_desc, input_count + 1);
  out->problem.outputs = CARNOT_NEW_ARRAY(arena, carnot_operand_desc, output_count + 1);
  const carnot_attr* body =
      node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
  for (uint32_t i = 0; i < input_count; i++) {
    out->inputs[i] = node->inputs[i];
    CARNOT_TRY(describe(builder, node->inputs[i], guess, &out->problem.inputs[i]));
    const carnot_value* inner = body ? body->block->params[i] : node->inputs[i];
    if (inner) l.of_value[inner->id] = i + 1;
  }
  CARNOT_TRY(fill_region(&l, node, &out->region));
  uint32_t at = 0;
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    CARNOT_TRY(describe(builder, node->outputs[i], guess, &out->problem.outputs[at]));
    out->outputs[at++] = node->outputs[i];
  }
  carnot_arena_reset(&builder->scratch);
  out->problem.region = &out->region;
  out->problem.input_count = input_count;
  out->problem.output_count = output_count;
  out->problem.inner = l.types;
  out->problem.isa = builder->isa;
  out->problem.device = builder->config->device;
  out->problem.timings = &builder->timings;
  out->problem.fast_fp32 = builder->config->fast_fp32;
  const carnot_device* device = builder->config->device;
  out->problem.allow_timing = device && device->ordinal >= 0 && builder->config->level >= 2 &&
                              !carnot_builder_is_late(builder);
  set_precision(builder, node, &out->problem);
  return NULL;
}
