// Steps that compute sizes, and steps that wait for values.
#include "builder/lower/lower.h"

static bool is_small(const carnot_builder* builder, const carnot_type* type) {
  int64_t count = 1;
  if (type->kind != CARNOT_VALUE_TENSOR || type->rank < 0 || type->dtype == CARNOT_DTYPE_STRING)
    return false;
  for (int d = 0; d < type->rank; d++) {
    if (!carnot_sym_is_const(type->dims[d]) || type->dims[d].bits > CARNOT_MAX_SHAPE_ELEMENTS)
      return false;
    count *= type->dims[d].bits;
  }
  return count <= CARNOT_MAX_SHAPE_ELEMENTS && carnot_type_is_static(builder, type);
}

bool carnot_lowering_is_shape_step(carnot_lowering* l, const carnot_choice* choice) {
  if (l->block != 0 || choice->region.node_count != 1) return false;
  carnot_op op = choice->region.nodes[0].op;
  const carnot_op_row* row = carnot_op_get(op);
  if (row->flags) return false;
  for (uint32_t i = 0; i < choice->problem.output_count; i++)
    if (!(choice->outputs[i]->syms ? carnot_type_is_static(l->builder, &choice->outputs[i]->type)
                                   : is_small(l->builder, &choice->outputs[i]->type)))
      return false;
  bool reads_shape = false;
  for (uint32_t i = 0; i < choice->problem.input_count; i++) {
    const carnot_value* value = choice->inputs[i];
    if (!value || value->constant) continue;
    reads_shape = true;
    if (!carnot_type_is_static(l->builder, &value->type)) return false;
    if (carnot_op_wants_dims(op)) continue;
    if (!l->is_shape_value[value->id]) return false;
  }
  for (uint32_t i = 0; i < choice->problem.output_count; i++) {
    if (!reads_shape && !choice->outputs[i]->syms) return false;
    l->is_shape_value[choice->outputs[i]->id] = true;
  }
  return true;
}

// The model may state the size of a result that only the run can tell.
static bool is_sized_by_values(const carnot_choice* choice) {
  for (uint32_t n = 0; n < choice->region.node_count; n++) {
    const carnot_plan_node* node = &choice->region.nodes[n];
    int first = carnot_op_first_sizing_input(node->op);
    for (uint32_t i = first < 0 ? node->input_count : (uint32_t)first; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      if (local == CARNOT_PLAN_NONE) continue;
      if (local >= choice->problem.input_count) return true;
      const carnot_value* value = choice->inputs[local];
      bool integers = value && value->type.kind == CARNOT_VALUE_TENSOR &&
                      carnot_dtype_is_integer(value->type.dtype);
      if (integers && !value->constant && !value->syms) return true;
    }
  }
  return false;
}

bool carnot_lowering_is_late(const carnot_lowering* l, const carnot_choice* choice) {
  bool late = l->block != 0 || is_sized_by_values(choice);
  for (uint32_t i = 0; i < choice->region.node_count; i++) {
    unsigned flags = carnot_op_get(choice->region.nodes[i].op)->flags;
    late |= (flags & (CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT)) != 0;
  }
  for (uint32_t i = 0; i < choice->problem.input_count; i++)
    late |= choice->inputs[i] && l->builder->late[choice->inputs[i]->id];
  for (uint32_t i = 0; i < choice->problem.output_count; i++)
    late |= choice->outputs[i]->type.kind != CARNOT_VALUE_TENSOR ||
            choice->outputs[i]->type.rank < 0 ||
            !carnot_type_is_static(l->builder, &choice->outputs[i]->type);
  return late;
}

bool carnot_lowering_is_sized(const carnot_lowering* l, const carnot_choice* choice,
                              const carnot_value* result) {
  bool sized = l->block == 0 && strcmp(choice->row->name, CARNOT_VIEW_TACTIC) != 0 &&
               carnot_type_is_static(l->builder, &result->type);
  for (uint32_t i = 0; i < choice->region.node_count; i++)
    sized = sized && !(carnot_op_get(choice->region.nodes[i].op)->flags & CARNOT_OP_CONTROL);
  return sized;
}

static bool is_numbers(const carnot_operand_desc* t) {
  return t->kind == CARNOT_VALUE_TENSOR && t->rank >= 0 && t->format.dtype != CARNOT_DTYPE_STRING;
}

bool carnot_lowering_stays_on_device(const carnot_lowering* l, const carnot_choice* choice) {
  const carnot_problem* p = &choice->problem;
  bool stands_there = false;
  if (!l->builder->config->device || l->block != 0 || choice->node->op == CARNOT_OP_PLUGIN)
    return false;
  for (uint32_t i = 0; i < choice->region.node_count; i++)
    if (carnot_op_get(choice->region.nodes[i].op)->flags & CARNOT_OP_CONTROL) return false;
  for (uint32_t i = 0; i < p->input_count; i++) {
    const carnot_value* value = choice->inputs[i];
    if (value && !is_numbers(&p->inputs[i])) return false;
    stands_there |=
        value && !value->constant && l->builder->places[value->id] == CARNOT_MEMORY_DEVICE;
  }
  for (uint32_t i = 0; i < p->output_count; i++)
    if (!is_numbers(&p->outputs[i])) return false;
  return stands_there;
}

bool carnot_lowering_is_list(const carnot_lowering* l, const carnot_choice* choice) {
  bool reads = false;
  for (uint32_t i = 0; i < choice->problem.input_count; i++) {
    const carnot_value* value = choice->inputs[i];
    if (!value || value->constant) continue;
    reads = true;
    if (l->builder->places[value->id] != CARNOT_MEMORY_HOST) return false;
  }
  for (uint32_t i = 0; i < choice->problem.output_count; i++)
    if (!is_small(l->builder, &choice->outputs[i]->type) ||
        carnot_dtype_is_float(choice->outputs[i]->type.dtype))
      return false;
  return reads;
}

bool carnot_lowering_wants_dims(const carnot_choice* choice) {
  return choice->region.node_count == 1 && carnot_op_wants_dims(choice->region.nodes[0].op);
}

void carnot_lowering_choose_shape_step(carnot_choice* choice) {
  bool dims_only = carnot_lowering_wants_dims(choice);
  for (uint32_t i = 0; i < choice->problem.input_count && !dims_only; i++) {
    choice->problem.inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
    choice->problem.inputs[i].format.memory = CARNOT_MEMORY_HOST;
  }
  choice->row = carnot_tactic_find(CARNOT_REFERENCE_TACTIC);
  choice->rejected = "";
}
