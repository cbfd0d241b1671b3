// Selection in order of execution. The formats of a region's operands are those that earlier
// choices left, so enumeration is asked region by region. What joint selection (joint.h) then
// chooses otherwise is taken in a second walk.
#include "builder/select/select.h"

#include <string.h>

#include "backend/device.h"
#include "builder/select/joint.h"

// The formats in which a value is available so far: bit (memory space * layouts + layout).
typedef struct value_state {
  uint64_t available;
  uint32_t reads;  // inputs of regions that read the produced format
  bool is_late;    // its size or existence depends on values
} value_state;

typedef struct selection {
  carnot_builder* builder;
  const carnot_analysis* analysis;
  carnot_candidates* candidates;
  const carnot_select_request* request;
  const carnot_joint_region* joint;  // by region: those with a choice of joint selection; or NULL
  carnot_assignment* out;
  value_state* values;      // by value id
  uint32_t* last_producer;  // by block: the region of its last step + 1; 0: none, or a reformat
} selection;

_Static_assert((int)CARNOT_MEMORY_SPACE_COUNT*(int)CARNOT_LAYOUT_COUNT <= 64,
               "the formats of a value are bits of one word");
static uint64_t format_bit(carnot_layout layout, carnot_memory_space memory) {
  return UINT64_C(1) << ((unsigned)memory * CARNOT_LAYOUT_COUNT + (unsigned)layout);
}

// ---- formats of values ----

static void produce(selection* s, const carnot_value* value, carnot_format format, bool is_late) {
  s->out->formats[value->id] = format;
  s->values[value->id] =
      (value_state){.available = format_bit(format.layout, format.memory), .is_late = is_late};
}

// True when the last step of |block| is the producer of |value|, nothing has read the value, and
// the producer can store it in any layout.
static bool can_produce_in_other_layout(const selection* s, uint32_t block,
                                        const carnot_value* value) {
  if (!s->last_producer[block] || s->values[value->id].reads) return false;
  uint32_t region = s->last_producer[block] - 1;
  const carnot_region_facts* f = &s->analysis->regions[region];
  return f->output_count == 1 && f->outputs[0] == value &&
         s->out->regions[region].guarded_count == 0 &&
         carnot_stores_in_any_layout(carnot_assigned_candidate(s->out, s->candidates, region),
                                     value);
}

// A reader in |block| wants |value| in a layout and memory space. Lowering inserts the same copies
// and reformats for the assignment; here only their effect on later choices is followed.
static void require(selection* s, uint32_t block, const carnot_value* value, carnot_layout layout,
                    carnot_memory_space memory) {
  if (value->constant) return;
  value_state* state = &s->values[value->id];
  carnot_format* produced = &s->out->formats[value->id];
  if (state->available & format_bit(layout, memory)) return;
  if (produced->memory == memory && can_produce_in_other_layout(s, block, value)) {
    produced->layout = layout;
    state->available = format_bit(layout, memory);
    return;
  }
  if (produced->memory != memory) state->available |= format_bit(produced->layout, memory);
  state->available |= format_bit(layout, memory);
  s->last_producer[block] = 0;
}

static void read_input(selection* s, uint32_t block, const carnot_value* value,
                       const carnot_format* wanted) {
  require(s, block, value, wanted->layout, wanted->memory);
  const carnot_format* produced = &s->out->formats[value->id];
  if (wanted->layout == produced->layout && wanted->memory == produced->memory)
    s->values[value->id].reads++;
}

// Bodies run on the CPU: what they read from outside is copied to host memory before they begin.
static void require_captured(selection* s, uint32_t block, const carnot_block* body) {
  for (const carnot_node* node = body->first; node; node = node->next) {
    for (int i = 0; i < node->input_count; i++)
      if (node->inputs[i] && !node->inputs[i]->constant &&
          carnot_memory_is_device(s->out->formats[node->inputs[i]->id].memory))
        require(s, block, node->inputs[i], CARNOT_LAYOUT_ROW_MAJOR, CARNOT_MEMORY_HOST);
    for (size_t a = 0; a < node->attrs.count; a++)
      if (node->attrs.items[a].type == CARNOT_ATTR_BLOCK)
        require_captured(s, block, node->attrs.items[a].block);
  }
  for (size_t i = 0; i < body->output_count; i++)
    if (!body->outputs[i]->constant &&
        carnot_memory_is_device(s->out->formats[body->outputs[i]->id].memory))
      require(s, block, body->outputs[i], CARNOT_LAYOUT_ROW_MAJOR, CARNOT_MEMORY_HOST);
}

// ---- where and when a region runs ----

static bool is_late(const selection* s, const carnot_region_facts* f) {
  bool late = f->is_data_dependent;
  for (uint32_t i = 0; i < f->input_count; i++)
    late |= f->inputs[i] && s->values[f->inputs[i]->id].is_late;
  return late;
}

static bool is_numeric_tensor(const carnot_value* value) {
  const carnot_type* t = &value->type;
  return t->kind == CARNOT_VALUE_TENSOR && t->rank >= 0 && t->dtype != CARNOT_DTYPE_STRING;
}

// A late region between numeric tensors, one of which is in device memory, may run there.
static bool late_stays_on_device(const selection* s, const carnot_region_facts* f) {
  bool any_there = false;
  if (!s->builder->config->device || f->block != 0 || f->node->op == CARNOT_OP_PLUGIN ||
      f->has_control_flow)
    return false;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_value* value = f->inputs[i];
    if (value && !is_numeric_tensor(value)) return false;
    any_there |=
        value && !value->constant && carnot_memory_is_device(s->out->formats[value->id].memory);
  }
  for (uint32_t i = 0; i < f->output_count; i++)
    if (!is_numeric_tensor(f->outputs[i])) return false;
  return any_there;
}

// A few integers computed from integers in host memory: they decide sizes there, and the way to the
// device and back takes longer than computing them.
static bool is_host_list(const selection* s, const carnot_region_facts* f) {
  bool reads = false;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_value* value = f->inputs[i];
    if (!value || value->constant) continue;
    reads = true;
    if (carnot_memory_is_device(s->out->formats[value->id].memory)) return false;
  }
  return reads && carnot_region_makes_small_integers(s->builder, f);
}

static carnot_situation situation_of(const selection* s, const carnot_region_facts* f, bool late) {
  bool stays = late && late_stays_on_device(s, f);
  return (carnot_situation){
      .formats = s->out->formats,
      .sources = s->request->sources,
      .is_shape_step = f->is_shape_step || (stays && carnot_region_reads_dims_only(f)),
      .guess_sizes = stays,
      .on_device = late ? stays : !is_host_list(s, f),
      .allow_timing = !late};
}

// True for a result of a late region whose size does not depend on values: its readers are not
// late. The result of a view is stored where its input is, so it is late with the input.
static bool is_sized(const selection* s, const carnot_region_facts* f, const carnot_tactic* tactic,
                     const carnot_value* result) {
  return f->block == 0 && strcmp(tactic->name, CARNOT_VIEW_TACTIC) != 0 && !f->has_control_flow &&
         carnot_type_is_static(s->builder, &result->type);
}

// ---- choosing ----

static uint32_t index_of(const carnot_candidate_set* set, const carnot_tactic* tactic) {
  uint32_t at = 0;
  while (at < set->count && set->items[at].tactic != tactic) at++;
  return at;
}

// What changes of layout around a candidate of the CPU take, which timing it alone does not see:
// inputs that are produced otherwise, and a result that a reader wants otherwise. An output of the
// network is row-major; other readers of what has channels mostly want them last.
static carnot_status* time_around(const selection* s, const carnot_region_facts* f,
                                  carnot_candidate* item) {
  enum { kInterior = 4 };
  const carnot_problem* p = &item->problem;
  double all = 0, ns;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_operand_desc* t = &p->inputs[i];
    if (!f->inputs[i] || f->inputs[i]->constant || t->rank < 3) continue;
    if (s->values[f->inputs[i]->id].available & format_bit(t->format.layout, t->format.memory))
      continue;
    CARNOT_TRY(
        carnot_time_layout_change(s->builder, p, t, s->out->formats[f->inputs[i]->id].layout, &ns));
    all += ns;
  }
  for (uint32_t i = 0; i < f->output_count; i++) {
    const carnot_operand_desc* t = &p->outputs[i];
    const bool ends = f->outputs[i]->block_output_count > 0;
    const carnot_layout wanted = ends ? CARNOT_LAYOUT_ROW_MAJOR : CARNOT_LAYOUT_CHANNELS_LAST;
    if (t->rank < 3 || t->format.layout == wanted) continue;
    CARNOT_TRY(carnot_time_layout_change(s->builder, p, t, t->format.layout, &ns));
    all += ns * (ends ? 1 : kInterior);
  }
  item->around_ns = (uint64_t)all;
  return NULL;
}

static carnot_status* time_around_all(const selection* s, const carnot_region_facts* f,
                                      carnot_candidate_set* set) {
  for (uint32_t i = 0; i < set->count && set->count > 1; i++)
    if (!set->items[i].tactic->device && set->items[i].tactic->run)
      CARNOT_TRY(time_around(s, f, &set->items[i]));
  return NULL;
}

// The fastest; without times the first.
static uint32_t fastest_of(const carnot_candidate_set* set) {
  const carnot_candidate* items = set->items;
  uint32_t best = 0;
  uint64_t best_ns = UINT64_MAX;
  for (uint32_t i = 0; i < set->count; i++) {
    if (items[i].failed || (items[i].ns == UINT64_MAX && !items[best].failed)) continue;
    const uint64_t ns = items[i].ns == UINT64_MAX ? UINT64_MAX : items[i].ns + items[i].around_ns;
    if (items[best].failed || ns + carnot_candidate_margin(items, i) < best_ns)
      best = i, best_ns = ns;
  }
  return best;
}

static void pin(const selection* s, uint32_t region) {
  carnot_assigned_region* out = &s->out->regions[region];
  const carnot_candidate_set* set = s->candidates->sets[out->set];
  const carnot_tactic* pinned = s->request->pinned ? s->request->pinned[region] : NULL;
  if (pinned && index_of(set, pinned) < set->count) out->candidate = index_of(set, pinned);
}

static carnot_status* choose(selection* s, uint32_t region) {
  const carnot_region_facts* f = &s->analysis->regions[region];
  carnot_assigned_region* out = &s->out->regions[region];
  *out = (carnot_assigned_region){.is_late = is_late(s, f)};
  if (s->joint && s->joint[region].count) {
    out->set = s->joint[region].items[0].set;
    out->candidate = out->fastest = s->joint[region].items[0].candidate;
    pin(s, region);
    return NULL;
  }
  carnot_situation situation = situation_of(s, f, out->is_late);
  CARNOT_TRY(
      carnot_enumerate(s->builder, s->analysis, s->candidates, region, &situation, &out->set));
  carnot_candidate_set* set = s->candidates->sets[out->set];
  CARNOT_TRY(time_around_all(s, f, set));
  CARNOT_TRY(carnot_measure(s->builder, f, set));
  out->candidate = out->fastest = fastest_of(set);
  pin(s, region);
  return carnot_add_guarded_variants(s->builder, f, set, out);
}

// ---- blocks ----

static carnot_status* select_block(selection* s, uint32_t block);

static carnot_status* select_region(selection* s, uint32_t region) {
  const carnot_region_facts* f = &s->analysis->regions[region];
  CARNOT_TRY(choose(s, region));
  for (uint32_t b = 0; b < f->body_count; b++) {
    require_captured(s, f->block, s->analysis->blocks[f->bodies[b]].block);
    CARNOT_TRY(select_block(s, f->bodies[b]));
  }
  const carnot_candidate* chosen = carnot_assigned_candidate(s->out, s->candidates, region);
  const carnot_problem* p = &chosen->problem;
  for (uint32_t i = 0; i < f->input_count; i++)
    if (f->inputs[i]) read_input(s, f->block, f->inputs[i], &p->inputs[i].format);
  bool late = s->out->regions[region].is_late;
  for (uint32_t i = 0; i < f->output_count; i++)
    produce(s, f->outputs[i], p->outputs[i].format,
            late && !is_sized(s, f, chosen->tactic, f->outputs[i]));
  s->last_producer[f->block] = region + 1;
  return NULL;
}

// On an accelerator the main block's tensors are in device memory, except those that only the CPU
// can hold and those that decide shapes. Bodies get their parameters in host memory.
static carnot_memory_space param_memory(const selection* s, uint32_t block,
                                        const carnot_value* value) {
  const carnot_type* type = &value->type;
  bool on_device = s->builder->config->device && block == 0 && type->kind == CARNOT_VALUE_TENSOR &&
                   type->dtype != CARNOT_DTYPE_STRING && carnot_type_is_static(s->builder, type) &&
                   !s->analysis->is_shape_value[value->id];
  return on_device ? CARNOT_MEMORY_DEVICE : CARNOT_MEMORY_HOST;
}

static carnot_status* select_block(selection* s, uint32_t block) {
  const carnot_block_facts* b = &s->analysis->blocks[block];
  for (size_t i = 0; i < b->block->param_count; i++) {
    const carnot_value* value = b->block->params[i];
    carnot_format format = {.dtype = value->type.dtype, .memory = param_memory(s, block, value)};
    produce(s, value, format, !carnot_type_is_static(s->builder, &value->type));
  }
  bool reports = block == 0 && s->request->reports_progress;
  for (uint32_t i = 0; i < b->region_count; i++) {
    if (reports)
      CARNOT_TRY(carnot_builder_progress(s->builder, "tactics", (int)i, (int)b->region_count));
    CARNOT_TRY_AT(select_region(s, b->regions[i]), "node %s",
                  s->analysis->regions[b->regions[i]].name);
  }
  if (reports)
    CARNOT_TRY(
        carnot_builder_progress(s->builder, "tactics", (int)b->region_count, (int)b->region_count));
  for (size_t i = 0; i < b->block->output_count; i++) {
    const carnot_value* value = b->block->outputs[i];
    require(s, block, value, CARNOT_LAYOUT_ROW_MAJOR,
            block ? CARNOT_MEMORY_HOST : s->out->formats[value->id].memory);
  }
  return NULL;
}

static carnot_status* walk(selection* s) {
  void *values, *producers;
  carnot_arena* arena = &s->builder->facts;
  CARNOT_TRY(carnot_assignment_create(arena, s->analysis, s->out));
  CARNOT_TRY(carnot_arena_try(arena, s->analysis->value_count, sizeof(value_state), "value states",
                              &values));
  CARNOT_TRY(carnot_arena_try(arena, s->analysis->block_count, sizeof(uint32_t), "block states",
                              &producers));
  s->values = values;
  s->last_producer = producers;
  return select_block(s, 0);
}

carnot_status* carnot_select(carnot_builder* builder, const carnot_analysis* analysis,
                             carnot_candidates* candidates, const carnot_select_request* request,
                             carnot_assignment* out) {
  enum { kTimedLevel = 2 };
  selection s = {.builder = builder,
                 .analysis = analysis,
                 .candidates = candidates,
                 .request = request,
                 .out = out};
  CARNOT_TRY(walk(&s));
  if (builder->config->device || builder->config->level < kTimedLevel) return NULL;
  CARNOT_TRY(carnot_choose_layouts(builder, analysis, candidates, out, &s.joint));
  const carnot_select_request again = {.sources = request->sources, .pinned = request->pinned};
  s.request = &again;
  return s.joint ? walk(&s) : NULL;
}
