// The problem that tactics are asked about: a region with descriptors of its operands.
#include "backend/device.h"
#include "builder/select/candidates.h"

static carnot_status* eval_dim(carnot_builder* builder, carnot_sym dim, bool guess, int64_t* out) {
  carnot_status* status = carnot_sym_eval(
      &builder->graph->syms, dim, guess ? builder->guess_values : builder->symbol_values,
      guess ? builder->guess_known : builder->symbol_known, out);
  if (!status) return NULL;
  // Decided while running: tactics must take any size.
  carnot_status_free(status);
  *out = -1;
  return NULL;
}

static carnot_status* describe(carnot_builder* builder, const carnot_value* value,
                               const carnot_format* formats, bool guess, carnot_operand_desc* out) {
  *out = (carnot_operand_desc){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
  if (!value) return NULL;
  if (formats) out->format = formats[value->id];
  out->format.dtype = carnot_builder_stored_type(builder, value);
  out->kind = value->type.kind;
  out->rank = value->type.rank;
  for (int d = 0; d < out->rank; d++) {
    CARNOT_TRY(eval_dim(builder, value->type.dims[d], guess, &out->dims[d]));
    carnot_sym_range(&builder->graph->syms, value->type.dims[d], &out->min[d], &out->max[d]);
  }
  out->is_constant = value->constant != NULL;
  if (value->constant) out->tensor = &value->constant->tensor;
  return NULL;
}

// A layer that the user set to FP32 keeps the whole region in FP32; one set to FP16 or BF16 asks
// for that type.
static void set_precision(const carnot_builder* builder, const carnot_node* node,
                          carnot_problem* out) {
  const carnot_attr* body =
      node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
  bool keeps_f32 = false;
  for (const carnot_node* n = body ? body->block->first : node; n; n = body ? n->next : NULL) {
    keeps_f32 |= n->precision == CARNOT_DTYPE_F32;
    if (n->precision && n->op != CARNOT_OP_CAST) out->requested_precision = n->precision;
  }
  if (keeps_f32) out->requested_precision = CARNOT_DTYPE_F32;
  carnot_dtype requested = out->requested_precision;
  const carnot_precision_constraints* typing = &builder->config->typing;
  bool half = carnot_dtype_is_half(requested);
  out->may_f16 = !keeps_f32 && (half ? requested == CARNOT_DTYPE_F16 : typing->f16);
  out->may_bf16 = !keeps_f32 && (half ? requested == CARNOT_DTYPE_BF16 : typing->bf16);
  // Weights of a later refit need not convert exactly.
  out->exact_f16 =
      !keeps_f32 && !out->may_f16 && !builder->config->refit && !builder->config->strip;
  bool any_half = out->may_f16 || out->may_bf16 || out->exact_f16;
  out->allowed_numerics = 1u << CARNOT_NUMERICS_EXACT | 1u << CARNOT_NUMERICS_SPLIT6 |
                          1u << CARNOT_NUMERICS_WINOGRAD |
                          (unsigned)out->fast_fp32 << CARNOT_NUMERICS_WINOGRAD_4X4 |
                          (unsigned)out->fast_fp32 << CARNOT_NUMERICS_SPLIT3 |
                          (unsigned)any_half << CARNOT_NUMERICS_HALF;
}

carnot_status* carnot_make_problem(carnot_builder* builder, const carnot_region_facts* f,
                                   const carnot_region* region, const carnot_format* formats,
                                   bool guess, carnot_problem* out) {
  const carnot_device* device = builder->config->device;
  uint32_t inner_count = f->region.value_count - f->input_count,
           count = f->input_count + f->output_count + inner_count;
  carnot_operand_desc* operands =
      CARNOT_NEW_ARRAY(&builder->problems, carnot_operand_desc, count + 1);
  CARNOT_TRY(carnot_arena_status(&builder->problems));
  *out = (carnot_problem){.region = region,
                          .input_count = f->input_count,
                          .output_count = f->output_count,
                          .inputs = operands,
                          .outputs = operands + f->input_count,
                          .inner = operands + f->input_count + f->output_count,
                          .isa = builder->isa,
                          .device = builder->config->device,
                          .timings = &builder->timings,
                          .fast_fp32 = builder->config->fast_fp32};
  for (uint32_t i = 0; i < f->input_count + f->output_count; i++) {
    const carnot_value* v = i < f->input_count ? f->inputs[i] : f->outputs[i - f->input_count];
    if (v) out->has_stored_types |= carnot_builder_stored_type(builder, v) != v->type.dtype;
  }
  for (uint32_t i = 0; i < f->input_count; i++)
    CARNOT_TRY(describe(builder, f->inputs[i], formats, guess, operands++));
  for (uint32_t i = 0; i < f->output_count; i++)
    CARNOT_TRY(describe(builder, f->outputs[i], formats, guess, operands++));
  for (uint32_t i = 0; i < inner_count; i++)
    CARNOT_TRY(describe(builder, f->inner[i], formats, guess, operands++));
  out->allow_timing = device && device->ordinal >= 0 && builder->config->level >= 2 &&
                      !carnot_builder_is_over_budget(builder);
  set_precision(builder, f->node, out);
  return NULL;
}

carnot_status* carnot_problem_copy(carnot_arena* arena, const carnot_problem* p,
                                   carnot_problem* out) {
  *out = *p;
  out->inputs = carnot_arena_copy(arena, p->inputs, p->input_count * sizeof(*p->inputs));
  out->outputs = carnot_arena_copy(arena, p->outputs, p->output_count * sizeof(*p->outputs));
  return carnot_arena_status(arena);
}

static bool resize(const carnot_builder* builder, const carnot_value* value,
                   const carnot_symbol_sizes* sizes, carnot_operand_desc* t) {
  bool known = true;
  for (int d = 0; value && d < t->rank && known; d++) {
    carnot_status* status = carnot_sym_eval(&builder->graph->syms, value->type.dims[d],
                                            sizes->values, sizes->known, &t->dims[d]);
    known = !status && t->dims[d] >= 1;
    carnot_status_free(status);
  }
  return known;
}

carnot_status* carnot_problem_resize(carnot_builder* builder, const carnot_region_facts* f,
                                     const carnot_symbol_sizes* sizes, carnot_problem* problem,
                                     bool* out_known) {
  const uint32_t inner_count = f->region.value_count - f->input_count;
  carnot_operand_desc* inner =
      carnot_arena_copy(&builder->problems, problem->inner, inner_count * sizeof(*problem->inner));
  CARNOT_TRY(carnot_arena_status(&builder->problems));
  problem->inner = inner;
  bool known = true;
  for (uint32_t i = 0; i < f->input_count; i++)
    known = known && resize(builder, f->inputs[i], sizes, &problem->inputs[i]);
  for (uint32_t i = 0; i < f->output_count; i++)
    known = known && resize(builder, f->outputs[i], sizes, &problem->outputs[i]);
  for (uint32_t i = 0; i < inner_count; i++)
    known = known && resize(builder, f->inner[i], sizes, &inner[i]);
  *out_known = known;
  return NULL;
}

carnot_status* carnot_reject_status(const char* why) {
  CARNOT_CHECK(!why || strcmp(why, CARNOT_REJECT_NO_MEMORY) != 0, OUT_OF_MEMORY,
               "no memory to read a problem");
  return NULL;
}

void carnot_problem_reset(carnot_problem* copy, const carnot_problem* original) {
  for (uint32_t i = 0; i < copy->input_count; i++)
    copy->inputs[i].format = original->inputs[i].format;
  for (uint32_t i = 0; i < copy->output_count; i++)
    copy->outputs[i].format = original->outputs[i].format;
}

bool carnot_layouts_are_same(const carnot_type* type) {
  bool one[CARNOT_MAX_RANK], spatial = true;
  if (type->kind != CARNOT_VALUE_TENSOR || type->rank < 3) return false;
  for (int d = 0; d < type->rank; d++)
    one[d] = carnot_sym_is_const(type->dims[d]) && type->dims[d].bits == 1;
  for (int d = 2; d < type->rank; d++) spatial = spatial && one[d];
  return spatial || one[1];
}

// That pays where so few channels are gathered.
bool carnot_stores_in_any_layout(const carnot_candidate* candidate, const carnot_value* value) {
  enum { kMostChannels = 8 };
  const carnot_type* type = &value->type;
  return candidate->tactic->output_layout_agnostic && type->rank >= 3 &&
         carnot_sym_is_const(type->dims[1]) && type->dims[1].bits <= kMostChannels;
}
