// Answers graph passes: is there a tactic that computes these nodes as one region?
//
// A pass fuses some patterns only where one kernel computes the whole. What kernels take is known
// to their tactics alone, so the pass proposes nodes and the builder asks the tactics of the
// target.
#include "builder/analysis/accepts.h"

#include <stdio.h>

#include "backend/device.h"

// A region over nodes that are still apart, and its problem. Lives in |arena|.
typedef struct proposal {
  carnot_target* target;
  carnot_dtype precision;  // of the tactics that are asked, INVALID: as stored
  carnot_arena arena;
  carnot_node* const* nodes;
  int count;
  const carnot_value** values;  // by local index: inputs in order of appearance, then results
  uint32_t value_count, input_count;
  carnot_region region;
  carnot_problem problem;
} proposal;

static uint32_t local_of(const proposal* p, const carnot_value* value) {
  uint32_t i = 0;
  while (i < p->value_count && p->values[i] != value) i++;
  return i < p->value_count ? i : CARNOT_PLAN_NONE;
}

static bool is_inside(const proposal* p, const carnot_node* node) {
  for (int i = 0; i < p->count; i++)
    if (p->nodes[i] == node) return true;
  return false;
}

static bool is_read_outside(const proposal* p, const carnot_value* value) {
  bool outside = value->block_output_count > 0;
  for (size_t i = 0; i < value->use_count; i++) outside |= !is_inside(p, value->uses[i].node);
  return outside;
}

// Values in the order that carnot_fuse gives them.
static bool number_values(proposal* p) {
  size_t most = 0;
  for (int n = 0; n < p->count; n++)
    most += (size_t)(p->nodes[n]->input_count + p->nodes[n]->output_count);
  p->values = CARNOT_NEW_ARRAY(&p->arena, const carnot_value*, most + 1);
  if (!p->values) return false;
  for (int n = 0; n < p->count; n++)
    for (int i = 0; i < p->nodes[n]->input_count; i++) {
      const carnot_value* value = p->nodes[n]->inputs[i];
      bool input = value && !(value->producer && is_inside(p, value->producer));
      if (input && local_of(p, value) == CARNOT_PLAN_NONE) p->values[p->value_count++] = value;
    }
  p->input_count = p->value_count;
  for (int n = 0; n < p->count; n++)
    for (int i = 0; i < p->nodes[n]->output_count; i++)
      if (p->nodes[n]->outputs[i]) p->values[p->value_count++] = p->nodes[n]->outputs[i];
  return true;
}

static const uint32_t* locals_of(proposal* p, carnot_value* const* values, int count) {
  uint32_t* locals = CARNOT_NEW_ARRAY(&p->arena, uint32_t, (size_t)count + 1);
  for (int i = 0; locals && i < count; i++)
    locals[i] = values[i] ? local_of(p, values[i]) : CARNOT_PLAN_NONE;
  return locals;
}

static bool fill_region(proposal* p) {
  p->region.nodes = CARNOT_NEW_ARRAY(&p->arena, carnot_plan_node, (size_t)p->count);
  if (!p->region.nodes) return false;
  for (int n = 0; n < p->count; n++) {
    const carnot_node* node = p->nodes[n];
    p->region.nodes[n] = (carnot_plan_node){
        .op = node->op,
        .name = node->name,
        .attrs = node->attrs,
        .input_count = (uint32_t)node->input_count,
        .output_count = (uint32_t)node->output_count,
        .inputs = locals_of(p, node->inputs, node->input_count),
        .outputs = locals_of(p, node->outputs, node->output_count),
    };
  }
  uint32_t* outputs = CARNOT_NEW_ARRAY(&p->arena, uint32_t, p->value_count + 1);
  if (!outputs) return false;
  for (uint32_t i = p->input_count; i < p->value_count; i++)
    if (is_read_outside(p, p->values[i])) outputs[p->region.output_count++] = i;
  p->region.node_count = (uint32_t)p->count;
  p->region.value_count = p->value_count;
  p->region.outputs = outputs;
  return !p->arena.failed;
}

static void describe(const carnot_value* value, carnot_operand_desc* out) {
  const carnot_type* type = &value->type;
  *out = (carnot_operand_desc){.kind = type->kind, .rank = type->rank};
  out->format.dtype = type->dtype;
  for (int d = 0; d < type->rank; d++) {
    out->dims[d] = carnot_sym_is_const(type->dims[d]) ? type->dims[d].bits : -1;
    carnot_sym_range(&value->block->graph->syms, type->dims[d], &out->min[d], &out->max[d]);
  }
  out->is_constant = value->constant != NULL;
  if (value->constant) out->tensor = &value->constant->tensor;
}

// Descriptors in row-major order and in the memory that |tactic| works in; tactics change them when
// they are asked.
static bool fill_problem(proposal* p, const carnot_tactic* tactic) {
  carnot_operand_desc* descs = CARNOT_NEW_ARRAY(&p->arena, carnot_operand_desc, p->value_count + 1);
  carnot_operand_desc* outputs =
      CARNOT_NEW_ARRAY(&p->arena, carnot_operand_desc, p->region.output_count + 1);
  if (!descs || !outputs) return false;
  for (uint32_t i = 0; i < p->value_count; i++) {
    describe(p->values[i], &descs[i]);
    descs[i].format.memory = tactic->device ? CARNOT_MEMORY_DEVICE : CARNOT_MEMORY_HOST;
  }
  for (uint32_t i = 0; i < p->region.output_count; i++) outputs[i] = descs[p->region.outputs[i]];
  p->problem = (carnot_problem){.tactic = tactic,
                                .region = &p->region,
                                .input_count = p->input_count,
                                .output_count = p->region.output_count,
                                .inputs = descs,
                                .outputs = outputs,
                                .inner = descs + p->input_count,
                                .isa = p->target->isa,
                                .may_f16 = p->precision == CARNOT_DTYPE_F16,
                                .may_bf16 = p->precision == CARNOT_DTYPE_BF16,
                                .device = p->target->device};
  return true;
}

// Tactics that compute any operator are not asked, nor those of another precision.
static bool may_ask(const proposal* p, const carnot_tactic* tactic) {
  return tactic->run && !(tactic->sources & ~p->target->sources) && !tactic->fallback &&
         tactic->precision == p->precision && carnot_isa_includes(p->target->isa, tactic->isa) &&
         tactic->device == (p->target->device != NULL);
}

// Asks the built-in tactics, or those of libraries. |out_asked|: a tactic of the region's operators
// was asked, whatever it answered.
static bool any_accepts(proposal* p, bool from_libraries, bool* out_asked) {
  carnot_tactic_iterator all =
      carnot_tactics_for(&p->region, /*backend=*/p->target->device != NULL);
  *out_asked = false;
  for (const carnot_tactic* t; (t = carnot_tactic_next(&all));) {
    char reason[256];
    if (!may_ask(p, t) || (t->sources != 0) != from_libraries) continue;
    *out_asked |= t->anchor != CARNOT_OP_COUNT;
    if (!fill_problem(p, t)) return false;
    const char* why = t->reject(&p->problem, reason, sizeof(reason));
    if (!why) return true;
    p->target->out_of_memory |= strcmp(why, CARNOT_REJECT_NO_MEMORY) == 0;
    if (!p->target->refusal[0]) snprintf(p->target->refusal, sizeof(p->target->refusal), "%s", why);
  }
  return false;
}

static bool is_static(const carnot_value* value) {
  if (value->type.kind != CARNOT_VALUE_TENSOR || value->type.rank < 0) return false;
  for (int d = 0; d < value->type.rank; d++)
    if (!carnot_sym_is_const(value->type.dims[d])) return false;
  return true;
}

// Whether any tactic computes the region, slow ones and those of libraries included, but for those
// of a type that must be allowed first. True where sizes are not known yet.
static bool any_computes(proposal* p) {
  for (uint32_t i = 0; i < p->value_count; i++)
    if (!is_static(p->values[i])) return true;
  carnot_tactic_iterator all =
      carnot_tactics_for(&p->region, /*backend=*/p->target->device != NULL);
  for (const carnot_tactic* t; (t = carnot_tactic_next(&all));) {
    char reason[256];
    if (!t->run || t->precision || t->device != (p->target->device != NULL) ||
        t->sources & ~p->target->sources)
      continue;
    if (!fill_problem(p, t)) return false;
    const char* why = t->reject(&p->problem, reason, sizeof(reason));
    if (!why) return true;
    p->target->out_of_memory |= strcmp(why, CARNOT_REJECT_NO_MEMORY) == 0;
  }
  return false;
}

const char* carnot_target_refusal(void* target) { return ((carnot_target*)target)->refusal; }

// The proposal of |nodes| in *out; false without memory.
static bool propose(carnot_target* target, carnot_node* const* nodes, int count, proposal* out) {
  *out = (proposal){.target = target, .nodes = nodes, .count = count};
  target->refusal[0] = '\0';
  carnot_status* status = carnot_arena_prepare(&out->arena);
  bool good = !status && number_values(out) && fill_region(out);
  target->out_of_memory |= !good;
  carnot_status_free(status);
  return good;
}

static bool accepts(carnot_target* target, carnot_node* const* nodes, int count,
                    carnot_dtype precision) {
  proposal p;
  // Fusion serves built-in kernels: cuDNN takes a cast before any convolution, and then a built-in
  // one for that convolution alone is lost. Libraries are asked where no built-in tactic exists.
  bool asked, accepted = false;
  if (propose(target, nodes, count, &p)) {
    p.precision = precision;
    accepted = any_accepts(&p, false, &asked);
    if (!accepted && !asked) accepted = any_accepts(&p, true, &asked);
  }
  p.target->out_of_memory |= p.arena.failed;
  carnot_arena_deinit(&p.arena);
  return accepted;
}

bool carnot_target_accepts(void* target, carnot_node* const* nodes, int count) {
  return accepts(target, nodes, count, CARNOT_DTYPE_INVALID);
}

bool carnot_target_accepts_half(void* target, carnot_node* const* nodes, int count) {
  carnot_target* t = target;
  return t->half && accepts(t, nodes, count, t->half);
}

bool carnot_target_computes(void* target, carnot_node* const* nodes, int count) {
  proposal p;
  bool computes = propose(target, nodes, count, &p) && any_computes(&p);
  p.target->out_of_memory |= p.arena.failed;
  carnot_arena_deinit(&p.arena);
  return computes;
}
