// Parts of concatenations that their producers write in place, and parts of splits that their
// readers read in place.
//
// A part lies in the whole: the result of its Concat or the operand of its Split. Where the axes
// outside the one that is joined or cut are 1 it is dense, and any step may write and read it. Else
// its rows are as far apart as those of the whole: its producer and all readers must take such
// operands. Results of Concat may be parts themselves (dense blocks: each is the beginning of the
// next), so Concats are visited last first; then Splits, whose wholes may be parts, first to last.
#include <string.h>

#include "builder/lower/lower.h"

enum {
  kDenseAlign = 64,  // of values in the arenas, which libraries may count on
  kRowAlign = 16     // of rows that device tactics read and write as vectors
};

typedef struct joiner {
  carnot_lowering* l;
  const carnot_plan_step** producers;  // by value, in the main block
  uint32_t *reads, *pitched_reads;     // by value: by all steps, and by those that take any pitch
  bool* pitched;                       // by value: its rows are apart
} joiner;

typedef struct join {
  uint32_t whole;
  const uint32_t* parts;
  uint32_t count;
  int axis;
  bool dense;  // the axes outside are 1
} join;

static const carnot_tactic* tactic_of(const carnot_plan_step* step, uint32_t variant) {
  return carnot_tactic_find(step->variants[variant].tactic);
}

static bool takes_pitch(const carnot_plan_step* step, uint32_t input) {
  bool takes = true;
  for (uint32_t i = 0; i < step->variant_count && takes; i++) {
    const carnot_tactic* tactic = tactic_of(step, i);
    takes = tactic && carnot_tactic_reads_pitched(tactic, input);
  }
  return takes;
}

static void count_reads(joiner* j) {
  const carnot_plan* plan = j->l->plan;
  for (uint32_t s = 0; s < plan->step_count; s++) {
    const carnot_plan_step* step = &plan->steps[s];
    for (uint32_t i = 0; i < step->input_count; i++) {
      if (step->inputs[i] == CARNOT_PLAN_NONE) continue;
      j->reads[step->inputs[i]]++;
      j->pitched_reads[step->inputs[i]] += takes_pitch(step, i);
    }
  }
  for (uint32_t b = 0; b < plan->block_count; b++)
    for (uint32_t i = 0; i < plan->blocks[b].output_count; i++)
      j->reads[plan->blocks[b].outputs[i]]++;
  const carnot_plan_block* main = &plan->blocks[0];
  for (uint32_t s = main->first_step; s < main->first_step + main->step_count; s++)
    for (uint32_t i = 0; i < plan->steps[s].output_count; i++)
      if (plan->steps[s].outputs[i] != CARNOT_PLAN_NONE)
        j->producers[plan->steps[s].outputs[i]] = &plan->steps[s];
}

// No dimension is ever 0: then the step surely runs by its tactic, which writes with strides.
static bool never_empty(const carnot_lowering* l, const carnot_plan_step* step) {
  for (uint32_t i = 0; i < step->input_count; i++) {
    if (step->inputs[i] == CARNOT_PLAN_NONE) continue;
    const carnot_type* type = &l->values[step->inputs[i]].from->type;
    for (int d = 0; d < type->rank; d++) {
      int64_t min, max;
      carnot_sym_range(&l->builder->graph->syms, type->dims[d], &min, &max);
      if (min < 1) return false;
    }
  }
  return true;
}

// Bytes of an element as it is stored.
static int64_t element_of(const carnot_value_builder* v) {
  return carnot_dtype_bits(carnot_plan_stored_dtype(&v->plan, v->from->type.dtype)) / 8;
}

// Whether dimension |d| is outside |axis| in memory.
static bool is_outside(carnot_layout layout, int d, int axis) {
  if (layout == CARNOT_LAYOUT_ROW_MAJOR || d == 0 || axis == 0) return d < axis;
  return axis == 1 ? d != 1 : d != 1 && d < axis;
}

static bool is_innermost(carnot_layout layout, int rank, int axis) {
  return axis == (layout == CARNOT_LAYOUT_ROW_MAJOR ? rank - 1 : 1);
}

// Bytes of a value are surely a multiple of this.
static int64_t bytes_divisor(const carnot_value_builder* v) {
  int64_t product = element_of(v);
  for (int d = 0; d < v->from->type.rank; d++)
    if (carnot_sym_is_const(v->from->type.dims[d]) && product < kDenseAlign << 20)
      product *= carnot_max_i64(1, v->from->type.dims[d].bits);
  return product;
}

static bool is_dense_part(const carnot_lowering* l, const join* where, uint32_t part) {
  for (uint32_t i = 0; i < part && where->dense; i++)
    if (bytes_divisor(&l->values[where->parts[i]]) % kDenseAlign) return false;
  return where->dense;
}

// Rows of the part and of the memory that it is in begin and end at multiples of |kRowAlign|.
static bool has_aligned_rows(const carnot_lowering* l, const join* where, uint32_t part) {
  int64_t offset = 0;
  for (uint32_t i = 0; i < part; i++) {
    const carnot_sym size = l->values[where->parts[i]].from->type.dims[where->axis];
    if (!carnot_sym_is_const(size)) return false;
    offset += size.bits;
  }
  uint32_t root = where->whole;
  while (l->values[root].plan.storage == CARNOT_STORAGE_SUBVIEW) root = l->values[root].plan.index;
  const carnot_value_builder* r = &l->values[root];
  const carnot_sym pitch = r->from->type.dims[where->axis],
                   own = l->values[where->parts[part]].from->type.dims[where->axis];
  return carnot_sym_is_const(pitch) && carnot_sym_is_const(own) &&
         own.bits * element_of(r) % kRowAlign == 0 && offset * element_of(r) % kRowAlign == 0 &&
         pitch.bits * element_of(r) % kRowAlign == 0;
}

static bool writes_apart(const carnot_lowering* l, const carnot_plan_step* producer) {
  bool writes = never_empty(l, producer);
  for (uint32_t i = 0; i < producer->variant_count && writes; i++) {
    const carnot_tactic* tactic = tactic_of(producer, i);
    writes = tactic && (tactic->strided_outputs || tactic->pitched_outputs);
  }
  return writes;
}

// Host tactics write any strides; what a Concat alone reads may lie anywhere in it, though
// channels-last tactics want pixels evenly apart.
static bool may_lie_apart(const joiner* j, const join* where, uint32_t part) {
  const carnot_lowering* l = j->l;
  const uint32_t value = where->parts[part];
  const carnot_format* format = &l->values[where->whole].plan.format;
  const int rank = l->values[where->whole].from->type.rank;
  if (!writes_apart(l, j->producers[value])) return false;
  if (format->memory != CARNOT_MEMORY_DEVICE)
    return j->reads[value] == 1 && (format->layout == CARNOT_LAYOUT_ROW_MAJOR || where->axis == 1);
  return j->pitched_reads[value] == j->reads[value] &&
         is_innermost(format->layout, rank, where->axis) && has_aligned_rows(l, where, part);
}

static bool can_be_part(const joiner* j, const join* where, uint32_t value) {
  const carnot_value_builder *v = &j->l->values[value], *w = &j->l->values[where->whole];
  const carnot_plan_step* producer = j->producers[value];
  if (v->plan.storage != CARNOT_STORAGE_ARENA || !producer || producer->is_shape ||
      v->plan.format.memory != w->plan.format.memory ||
      v->plan.format.layout != w->plan.format.layout ||
      v->plan.format.dtype != w->plan.format.dtype)
    return false;
  const carnot_tactic* tactic = tactic_of(producer, 0);
  return tactic && tactic->configure;
}

static bool is_result(const carnot_plan* plan, uint32_t value) {
  for (uint32_t i = 0; i < plan->blocks[0].output_count; i++)
    if (plan->blocks[0].outputs[i] == value) return true;
  return false;
}

// False where parts of |step| lie nowhere else.
static bool find_join(const joiner* j, const carnot_plan_step* step, carnot_op op, join* out) {
  const carnot_lowering* l = j->l;
  const carnot_plan_node* node = &step->region.nodes[0];
  for (uint32_t i = 0; i < step->variant_count; i++) {
    const carnot_tactic* tactic = tactic_of(step, i);
    if (!tactic || !tactic->parts_in_place) return false;
  }
  if (step->is_shape || node->op != op) return false;
  const bool joins = op == CARNOT_OP_CONCAT;
  *out = (join){.whole = joins ? step->outputs[0] : step->inputs[0],
                .parts = joins ? step->inputs : step->outputs,
                .count = joins ? step->input_count : step->output_count};
  const carnot_value_builder* w = &l->values[out->whole];
  const int rank = w->from->type.rank;
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis");
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank ||
      (w->plan.storage != CARNOT_STORAGE_ARENA && w->plan.storage != CARNOT_STORAGE_SUBVIEW))
    return false;
  out->axis = (int)axis, out->dense = !j->pitched[out->whole];
  // Rows that are apart already are those of one axis.
  if (!out->dense && w->plan.axis != axis) return false;
  for (int d = 0; d < rank && out->dense; d++)
    out->dense =
        !is_outside(w->plan.format.layout, d, (int)axis) || carnot_sym_is(w->from->type.dims[d], 1);
  return true;
}

static void join_step(joiner* j, const carnot_plan_step* step, carnot_op op) {
  carnot_lowering* l = j->l;
  join where;
  if (!find_join(j, step, op, &where)) return;
  for (uint32_t i = 0; i < where.count; i++) {
    const uint32_t value = where.parts[i];
    // The parts before this one must have their sizes when shapes are set.
    if (value == CARNOT_PLAN_NONE || l->values[value].waits ||
        !carnot_type_is_static(l->builder, &l->values[value].from->type))
      return;
    if (!can_be_part(j, &where, value) || is_result(l->plan, value)) continue;
    const bool dense = is_dense_part(l, &where, i);
    if (!dense && !may_lie_apart(j, &where, i)) continue;
    j->pitched[value] = !dense;
    carnot_plan_value* v = &l->values[value].plan;
    v->storage = CARNOT_STORAGE_SUBVIEW;
    v->index = where.whole;
    v->axis = (int32_t)where.axis;
    v->before = where.parts;
    v->before_count = i;
    v->max_bytes = 0;
  }
}

carnot_status* carnot_lowering_join_parts(carnot_lowering* l) {
  carnot_arena* arena = &l->plan->arena;
  const size_t count = (size_t)l->value_count + 1;
  joiner j = {.l = l,
              .producers = CARNOT_NEW_ARRAY(arena, const carnot_plan_step*, count),
              .reads = CARNOT_NEW_ARRAY(arena, uint32_t, count),
              .pitched_reads = CARNOT_NEW_ARRAY(arena, uint32_t, count),
              .pitched = CARNOT_NEW_ARRAY(arena, bool, count)};
  CARNOT_TRY(carnot_arena_status(arena));
  count_reads(&j);
  const carnot_plan_block* main = &l->plan->blocks[0];
  for (uint32_t s = main->first_step + main->step_count; s-- > main->first_step;)
    join_step(&j, &l->plan->steps[s], CARNOT_OP_CONCAT);
  for (uint32_t s = main->first_step; s < main->first_step + main->step_count; s++)
    join_step(&j, &l->plan->steps[s], CARNOT_OP_SPLIT);
  return NULL;
}
