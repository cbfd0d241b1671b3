// Which float32 values lie in memory as BF16.
//
// All values that may be BF16 are proposed. A region whose tactics do not take its operands so gets
// its results back in float32, or an input, or both, or all inputs, or everything; that is repeated
// until every region has a tactic. Element-wise regions and those that move data store BF16 only
// where they read it: the rounding then is that of the GEMMs and convolutions on either side, which
// compute in BF16. Norms store it where such a one reads their result.
#include <string.h>

#include "builder/select/candidates.h"
#include "builder/select/select.h"

typedef struct chooser {
  carnot_builder* builder;
  const carnot_analysis* analysis;
  carnot_dtype* stored;  // by value id
} chooser;

static bool is_stored(const chooser* c, const carnot_value* value) {
  return value && c->stored[value->id] != CARNOT_DTYPE_INVALID;
}

// ---- which values may be BF16 ----

static bool may_round(const carnot_builder* builder, const carnot_node* node) {
  const carnot_attr* body =
      node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
  for (const carnot_node* n = body ? body->block->first : node; n; n = body ? n->next : NULL)
    if (n->precision != CARNOT_DTYPE_INVALID && n->precision != CARNOT_DTYPE_BF16) return false;
  return builder->config->typing.bf16 && node->op != CARNOT_OP_PLUGIN;
}

static bool may_take(const chooser* c, const carnot_region_facts* f) {
  return f->block == 0 && !f->is_shape_step && !f->is_data_dependent && !f->has_control_flow &&
         may_round(c->builder, f->node);
}

static bool may_store(const chooser* c, const carnot_value* value) {
  const carnot_type* type = &value->type;
  return type->kind == CARNOT_VALUE_TENSOR && type->dtype == CARNOT_DTYPE_F32 && type->rank > 0 &&
         !value->forced_dtype && !value->constant && !value->block_output_count &&
         carnot_type_is_static(c->builder, type) && !c->analysis->is_shape_value[value->id];
}

static void propose(const chooser* c) {
  const carnot_analysis* a = c->analysis;
  for (uint32_t r = 0; r < a->region_count; r++)
    for (uint32_t i = 0; i < a->regions[r].output_count && may_take(c, &a->regions[r]); i++)
      if (may_store(c, a->regions[r].outputs[i]))
        c->stored[a->regions[r].outputs[i]->id] = CARNOT_DTYPE_BF16;
  for (uint32_t r = 0; r < a->region_count; r++)
    for (uint32_t i = 0; i < a->regions[r].input_count && !may_take(c, &a->regions[r]); i++)
      if (a->regions[r].inputs[i]) c->stored[a->regions[r].inputs[i]->id] = CARNOT_DTYPE_INVALID;
}

// ---- until every region has a tactic ----

static bool any_stored(const chooser* c, carnot_value* const* values, uint32_t count) {
  bool any = false;
  for (uint32_t i = 0; i < count; i++) any |= is_stored(c, values[i]);
  return any;
}

static void clear(const chooser* c, carnot_value* const* values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i]) c->stored[values[i]->id] = CARNOT_DTYPE_INVALID;
}

static carnot_status* ask(const chooser* c, const carnot_region_facts* f, bool* out_takes) {
  carnot_problem problem;
  CARNOT_TRY(
      carnot_make_problem(c->builder, f, &f->region, /*formats=*/NULL, /*guess=*/false, &problem));
  return carnot_any_tactic_takes(c->builder, &problem, out_takes);
}

enum { kMost = 32 };  // values that are tried together

// Asks with |values| of |f| in float32; keeps that where a tactic takes it.
static carnot_status* try_without(const chooser* c, const carnot_region_facts* f,
                                  carnot_value* const* values, uint32_t count, bool* out_takes) {
  carnot_dtype before[kMost];
  *out_takes = false;
  if (count > kMost || !any_stored(c, values, count)) return NULL;
  for (uint32_t i = 0; i < count; i++)
    before[i] = values[i] ? c->stored[values[i]->id] : CARNOT_DTYPE_INVALID;
  clear(c, values, count);
  CARNOT_TRY(ask(c, f, out_takes));
  for (uint32_t i = 0; i < count && !*out_takes; i++)
    if (values[i]) c->stored[values[i]->id] = before[i];
  return NULL;
}

// The same of one input, and of its results with it.
static carnot_status* try_without_one(const chooser* c, const carnot_region_facts* f,
                                      bool and_results, bool* out_takes) {
  carnot_value* values[kMost];
  const uint32_t results = and_results ? f->output_count : 0;
  *out_takes = false;
  if (results >= kMost) return NULL;
  for (uint32_t i = 0; i < results; i++) values[i] = f->outputs[i];
  for (uint32_t i = 0; i < f->input_count && !*out_takes; i++) {
    values[results] = f->inputs[i];
    if (is_stored(c, f->inputs[i])) CARNOT_TRY(try_without(c, f, values, results + 1, out_takes));
  }
  return NULL;
}

// A region that computes nothing that a BF16 kernel rounds anyway.
static bool follows_inputs(const carnot_region_facts* f) {
  for (uint32_t n = 0; n < f->region.node_count; n++)
    if (carnot_op_has_trait(f->region.nodes[n].op, CARNOT_TRAIT_CONTRACTION)) return false;
  return true;
}

// Reads values of the size of its first result in float32 beside others in BF16: a sum of both,
// say, which is not rounded to the smaller type.
static bool mixes(const chooser* c, const carnot_region_facts* f) {
  bool any = false;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_value* x = f->inputs[i];
    any |= x && !x->constant && !is_stored(c, x) && x->type.dtype == CARNOT_DTYPE_F32 &&
           f->output_count > 0 && carnot_same_dims(&x->type, &f->outputs[0]->type);
  }
  return any;
}

static bool has_trait(const carnot_node* node, unsigned traits) {
  const carnot_attr* body =
      node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
  if (!body) return carnot_op_has_trait(node->op, traits);
  for (const carnot_node* n = body->block->first; n; n = n->next)
    if (carnot_op_has_trait(n->op, traits)) return true;
  return false;
}

// A norm, softmax, pooling or the like whose result a GEMM or convolution reads, which would round
// it.
static bool is_rounded_by_reader(const carnot_region_facts* f) {
  if (!has_trait(f->node, CARNOT_TRAIT_F32_AS_HALF) || f->output_count != 1 || !f->outputs[0])
    return false;
  for (size_t i = 0; i < f->outputs[0]->use_count; i++)
    if (has_trait(f->outputs[0]->uses[i].node, CARNOT_TRAIT_CONTRACTION)) return true;
  return false;
}

static carnot_status* settle(const chooser* c, const carnot_region_facts* f, bool* out_changed) {
  const bool reads = any_stored(c, f->inputs, f->input_count);
  if (!reads && !any_stored(c, f->outputs, f->output_count)) return NULL;
  if (any_stored(c, f->outputs, f->output_count) && follows_inputs(f) && (!reads || mixes(c, f)) &&
      !is_rounded_by_reader(f)) {
    clear(c, f->outputs, f->output_count);
    *out_changed = true;
    if (!reads) return NULL;
  }
  bool takes;
  CARNOT_TRY(ask(c, f, &takes));
  if (takes) return NULL;
  *out_changed = true;
  CARNOT_TRY(try_without(c, f, f->outputs, f->output_count, &takes));
  if (!takes) CARNOT_TRY(try_without_one(c, f, /*and_results=*/false, &takes));
  if (!takes) CARNOT_TRY(try_without_one(c, f, /*and_results=*/true, &takes));
  if (!takes) CARNOT_TRY(try_without(c, f, f->inputs, f->input_count, &takes));
  if (takes) return NULL;
  clear(c, f->inputs, f->input_count);
  clear(c, f->outputs, f->output_count);
  return NULL;
}

carnot_status* carnot_choose_stored_types(carnot_builder* builder,
                                          const carnot_analysis* analysis) {
  const carnot_build_config* config = builder->config;
  if (config->device || !config->typing.bf16 || config->no_passes ||
      !carnot_isa_includes(builder->isa, CARNOT_ISA_AMX_BF16))
    return NULL;
  void* stored;
  CARNOT_TRY(carnot_arena_try(&builder->facts, analysis->value_count + 1, sizeof(carnot_dtype),
                              "stored types", &stored));
  memset(stored, 0, (analysis->value_count + 1) * sizeof(carnot_dtype));
  const chooser c = {builder, analysis, stored};
  builder->stored_types = stored;
  propose(&c);
  // Forwards and backwards in turns: what one region gives back reaches its neighbours on both
  // sides.
  bool changed = true;
  for (bool forwards = true; changed; forwards = !forwards) {
    changed = false;
    for (uint32_t i = 0; i < analysis->region_count; i++) {
      const uint32_t r = forwards ? i : analysis->region_count - 1 - i;
      if (analysis->regions[r].block != 0) continue;
      CARNOT_TRY(settle(&c, &analysis->regions[r], &changed));
      carnot_arena_reset(&builder->problems);  // no candidates exist yet
      CARNOT_TRY(carnot_arena_prepare(&builder->problems));
    }
  }
  return NULL;
}
