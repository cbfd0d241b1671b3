// Shape steps, and regions whose sizes or execution depend on values.
#include "builder/analysis/analysis.h"

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

static bool outputs_are_small(const carnot_builder* builder, const carnot_region_facts* f) {
  for (uint32_t i = 0; i < f->output_count; i++)
    if (!(f->outputs[i]->syms ? carnot_type_is_static(builder, &f->outputs[i]->type)
                              : is_small(builder, &f->outputs[i]->type)))
      return false;
  return true;
}

bool carnot_region_is_shape_step(const carnot_builder* builder, carnot_analysis* analysis,
                                 const carnot_region_facts* f) {
  if (f->block != 0 || f->region.node_count != 1) return false;
  carnot_op op = f->region.nodes[0].op;
  if (carnot_op_get(op)->flags || !outputs_are_small(builder, f)) return false;
  bool reads_shape = false;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_value* value = f->inputs[i];
    if (!value || value->constant) continue;
    reads_shape = true;
    if (!carnot_type_is_static(builder, &value->type)) return false;
    if (carnot_op_wants_dims(op)) continue;
    if (!analysis->is_shape_value[value->id]) return false;
  }
  for (uint32_t i = 0; i < f->output_count; i++) {
    if (!reads_shape && !f->outputs[i]->syms) return false;
    analysis->is_shape_value[f->outputs[i]->id] = true;
  }
  return true;
}

// True when an input that decides output sizes is computed. The model may state the size of a
// result that only the run can compute.
static bool is_sized_by_values(const carnot_region_facts* f) {
  for (uint32_t n = 0; n < f->region.node_count; n++) {
    const carnot_plan_node* node = &f->region.nodes[n];
    int first = carnot_op_first_sizing_input(node->op);
    for (uint32_t i = first < 0 ? node->input_count : (uint32_t)first; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      if (local == CARNOT_PLAN_NONE) continue;
      if (local >= f->input_count) return true;
      const carnot_value* value = f->inputs[local];
      bool integers = value && value->type.kind == CARNOT_VALUE_TENSOR &&
                      carnot_dtype_is_integer(value->type.dtype);
      if (integers && !value->constant && !value->syms) return true;
    }
  }
  return false;
}

bool carnot_region_is_data_dependent(const carnot_builder* builder, const carnot_region_facts* f) {
  bool late = f->block != 0 || is_sized_by_values(f);
  for (uint32_t i = 0; i < f->region.node_count; i++) {
    unsigned flags = carnot_op_get(f->region.nodes[i].op)->flags;
    late |= (flags & (CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT)) != 0;
  }
  for (uint32_t i = 0; i < f->output_count; i++) {
    const carnot_type* type = &f->outputs[i]->type;
    late |= type->kind != CARNOT_VALUE_TENSOR || type->rank < 0 ||
            !carnot_type_is_static(builder, type);
  }
  return late;
}

bool carnot_region_makes_small_integers(const carnot_builder* builder,
                                        const carnot_region_facts* f) {
  for (uint32_t i = 0; i < f->output_count; i++)
    if (!is_small(builder, &f->outputs[i]->type) ||
        carnot_dtype_is_float(f->outputs[i]->type.dtype))
      return false;
  return true;
}

bool carnot_region_reads_dims_only(const carnot_region_facts* f) {
  return f->region.node_count == 1 && carnot_op_wants_dims(f->region.nodes[0].op);
}
