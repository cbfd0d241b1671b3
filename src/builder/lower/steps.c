// The plan step of a region: variants with their packed constants, and what the inspector shows.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/device.h"
#include "base/hash.h"
#include "builder/lower/lower.h"

// ---- variants ----

static bool is_packed_alike(const carnot_plan_blob* blob, const char* packing, const void* data,
                            size_t bytes) {
  return blob->tensor.dims[0] == (int64_t)bytes && blob->tensor.data &&
         strcmp(blob->packing, packing) == 0 && memcmp(blob->tensor.data, data, bytes) == 0;
}

// A blob that holds the same bytes in the same packing, or NONE: of any step, such as the weights
// of one layer at several sizes of its input. Refit packs each step's weights again, so that then
// variants of a step alone share blobs.
static uint32_t find_packed(const carnot_lowering* l, const carnot_plan_step* step,
                            const char* packing, const void* data, size_t bytes) {
  const bool one_step = l->builder->config->refit || l->builder->config->strip;
  for (uint32_t i = 0; i < l->blob_count && !one_step; i++)
    if (is_packed_alike(&l->blobs[i], packing, data, bytes)) return i;
  for (uint32_t k = 0; k < step->variant_count && one_step; k++)
    for (uint32_t c = 0; c < step->variants[k].constant_count; c++) {
      const uint32_t blob = step->variants[k].constants[c];
      if (is_packed_alike(&l->blobs[blob], packing, data, bytes)) return blob;
    }
  return CARNOT_PLAN_NONE;
}

static carnot_status* packed_blob(carnot_lowering* l, const carnot_plan_step* step,
                                  const char* packing, void* data, size_t bytes,
                                  uint32_t* out_blob) {
  *out_blob = find_packed(l, step, packing, data, bytes);
  if (*out_blob != CARNOT_PLAN_NONE) return NULL;
  carnot_plan_blob blob = {.name = "", .packing = packing, .refit_expr = CARNOT_PLAN_NONE};
  blob.tensor =
      (carnot_tensor){.dtype = CARNOT_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .data = data};
  return carnot_lowering_add_blob(l, &blob, out_blob);
}

static carnot_status* add_variant(carnot_lowering* l, const carnot_candidate* c,
                                  const carnot_guard* guard, carnot_plan_step* step) {
  const carnot_prepared* prepared = &c->prepared;
  carnot_variant variant = {.tactic = c->tactic->name,
                            .params = prepared->params,
                            .param_bytes = prepared->param_bytes,
                            .constant_count = prepared->constant_count};
  if (guard) variant.guards[variant.guard_count++] = *guard;
  uint32_t* constants = CARNOT_NEW_ARRAY(&l->plan->arena, uint32_t, prepared->constant_count + 1);
  CARNOT_TRY(carnot_arena_status(&l->plan->arena));
  for (uint32_t i = 0; i < prepared->constant_count; i++)
    CARNOT_TRY(packed_blob(l, step, prepared->constants[i].packing, prepared->constants[i].data,
                           prepared->constants[i].bytes, &constants[i]));
  variant.constants = constants;
  step->variants[step->variant_count++] = variant;
  return NULL;
}

// The candidates of a region's step in the order of its variants; the last has no guard.
typedef struct variant_list {
  uint32_t count;
  carnot_candidate* items[CARNOT_MAX_VARIANTS];
  const carnot_guard* guards[CARNOT_MAX_VARIANTS];
} variant_list;

static variant_list variants_of(const carnot_lowering* l, uint32_t region) {
  static const carnot_guard kNever = {.min = 1, .max = 0, .multiple = 1};
  const carnot_assigned_region* a = &l->assignment->regions[region];
  carnot_candidate* items = l->candidates->sets[a->set]->items;
  const carnot_alternatives* more = l->alternatives ? &l->alternatives[region] : NULL;
  variant_list list = {.count = 0};
  for (uint32_t i = 0; i < a->guarded_count; i++) {
    list.items[list.count] = &items[a->guarded[i].candidate];
    list.guards[list.count++] = &a->guarded[i].guard;
  }
  for (uint32_t i = 0; more && i < more->count; i++) {
    list.items[list.count] = &items[more->candidates[i]];
    list.guards[list.count++] = &kNever;
  }
  list.items[list.count++] = &items[a->candidate];
  return list;
}

carnot_status* carnot_lowering_prepare(carnot_lowering* l, uint32_t region) {
  variant_list list = variants_of(l, region);
  const char* node = l->analysis->regions[region].name;
  for (uint32_t i = 0; i < list.count; i++)
    CARNOT_TRY(carnot_candidate_prepare(l->builder, node, list.items[i]));
  return NULL;
}

bool carnot_lowering_is_packed_away(const carnot_lowering* l, uint32_t region, uint32_t input) {
  variant_list list = variants_of(l, region);
  uint64_t packed = UINT64_MAX;
  for (uint32_t i = 0; i < list.count; i++) packed &= list.items[i]->prepared.packed_inputs;
  return list.items[0]->problem.inputs[input].is_constant && packed >> input & 1;
}

// ---- what the inspector shows ----

// The type that the layer computes in: the tactic's FP16 or BF16, unless FP16 holds the weights
// exactly; else the type whose rounding was requested; else that of the result.
static carnot_dtype precision_of(const carnot_candidate* c) {
  const carnot_problem* p = &c->problem;
  bool exact = p->exact_f16 && c->tactic->precision == CARNOT_DTYPE_F16;
  if (c->tactic->precision && !exact) return c->tactic->precision;
  carnot_dtype dtype = p->output_count ? p->outputs[0].format.dtype : CARNOT_DTYPE_INVALID;
  bool rounds = carnot_dtype_is_half(p->requested_precision) && carnot_dtype_is_float(dtype);
  return rounds ? p->requested_precision : dtype;
}

// The operator that the region is named after: not a conversion of its operands.
static carnot_op main_op(const carnot_region* region) {
  uint32_t n = 0;
  while (n + 1 < region->node_count && (region->nodes[n].op == CARNOT_OP_CAST ||
                                        region->nodes[n].op == CARNOT_OP_DEQUANTIZE_LINEAR))
    n++;
  return region->nodes[n].op;
}

typedef struct text {
  char data[CARNOT_REASONS_BYTES];
  size_t at;
} text;

CARNOT_PRINTF(2, 3) static void append(text* t, const char* format, ...) {
  if (t->at >= sizeof(t->data)) return;
  va_list arguments;
  va_start(arguments, format);
  t->at += (size_t)vsnprintf(t->data + t->at, sizeof(t->data) - t->at, format, arguments);
  va_end(arguments);
}

static const char* shared_text(carnot_lowering* l, const char* data) {
  size_t size = strlen(data);
  const char** slot = &l->texts[carnot_hash(data, size, 0) % CARNOT_SHARED_TEXTS];
  if (!*slot || strcmp(*slot, data) != 0) *slot = carnot_arena_text(&l->plan->arena, data, size);
  return *slot;
}

// Why the other tactics were not chosen: rejected, failed when they were timed, or slower.
static const char* rejections_of(carnot_lowering* l, uint32_t region) {
  const carnot_assigned_region* a = &l->assignment->regions[region];
  const carnot_candidate_set* set = l->candidates->sets[a->set];
  const carnot_candidate* chosen = &set->items[a->candidate];
  text t = {.at = 0};
  append(&t, "%s", set->rejections);
  for (uint32_t i = 0; i < set->count; i++)
    if (set->items[i].failed)
      append(&t, "%s%s: %s", t.at ? "; " : "", set->items[i].tactic->name, set->items[i].failed);
  for (uint32_t i = 0; i < set->count; i++)
    if (set->items[i].untimed)
      append(&t, "%s%s: %s", t.at ? "; " : "", set->items[i].tactic->name, set->items[i].untimed);
  for (uint32_t i = 0; i < set->count; i++) {
    const carnot_candidate* c = &set->items[i];
    if (c == chosen || c->ns == UINT64_MAX) continue;
    append(&t, "%s%s: took %.2f us, the chosen one %.2f%s", t.at ? "; " : "", c->tactic->name,
           (double)c->ns * 1e-3, (double)chosen->ns * 1e-3,
           i == a->fastest ? ", but the whole run is faster with that" : "");
  }
  return shared_text(l, t.data);
}

// ---- the step ----

// The operand descriptors that prepare is called with, for refit.
static carnot_status* keep_types(carnot_arena* arena, const carnot_candidate* c,
                                 carnot_plan_step* step) {
  const carnot_problem* p = &c->problem;
  uint32_t inner = p->region->value_count - p->input_count;
  step->type_count = p->input_count + p->output_count + inner;
  step->types = CARNOT_NEW_ARRAY(arena, carnot_operand_desc, step->type_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  if (p->input_count) memcpy(step->types, p->inputs, p->input_count * sizeof(*step->types));
  if (p->output_count)
    memcpy(step->types + p->input_count, p->outputs, p->output_count * sizeof(*step->types));
  if (inner)
    memcpy(step->types + p->input_count + p->output_count, p->inner, inner * sizeof(*step->types));
  return NULL;
}

carnot_status* carnot_lowering_add_region_step(carnot_lowering* l, uint32_t region,
                                               const uint32_t* inputs, const uint32_t* outputs) {
  const carnot_region_facts* f = &l->analysis->regions[region];
  const carnot_assigned_region* a = &l->assignment->regions[region];
  const carnot_candidate_set* set = l->candidates->sets[a->set];
  const carnot_candidate* chosen = &set->items[a->candidate];
  carnot_plan_step step = {.name = f->name,
                           .region = set->plan_region,
                           .input_count = f->input_count,
                           .output_count = f->output_count,
                           .inputs = inputs,
                           .outputs = outputs,
                           .is_shape = f->is_shape_step};
  if (l->builder->config->refit) CARNOT_TRY(keep_types(&l->plan->arena, chosen, &step));
  variant_list variants = variants_of(l, region);
  for (uint32_t i = 0; i < variants.count; i++)
    CARNOT_TRY(add_variant(l, variants.items[i], variants.guards[i], &step));
  carnot_step_note note = {.layer_type = carnot_op_get(main_op(&step.region))->layer_type,
                           .rejected = rejections_of(l, region),
                           .unfused = f->node->unfused,
                           .precision = precision_of(chosen),
                           .time_us = chosen->ns == UINT64_MAX ? 0 : (double)chosen->ns * 1e-3};
  carnot_candidate_work(chosen, &note.flops, &note.bytes);
  l->step_of[region] = (uint32_t)l->blocks[l->block].steps.count;
  return carnot_lowering_add_step(l, &step, &note);
}

// ---- log ----

static bool holds_text(const carnot_problem* p) {
  for (uint32_t i = 0; i < p->input_count; i++)
    if (p->inputs[i].format.dtype == CARNOT_DTYPE_STRING) return true;
  for (uint32_t i = 0; i < p->output_count; i++)
    if (p->outputs[i].format.dtype == CARNOT_DTYPE_STRING) return true;
  return false;
}

// True when the accelerator could compute the region, since nothing of it depends on values, and
// has no tactic for it.
static bool lacks_device_tactic(const carnot_region_facts* f, const carnot_assigned_region* a,
                                const carnot_candidate_set* set) {
  const carnot_candidate* chosen = &set->items[a->candidate];
  const carnot_tactic* tactic = chosen->tactic;
  return !f->is_shape_step && !a->is_late && set->situation.on_device && !tactic->device &&
         !tactic->cross_memory && strcmp(tactic->name, CARNOT_VIEW_TACTIC) != 0 &&
         !holds_text(&chosen->problem);
}

void carnot_log_assignment(const carnot_builder* builder, const carnot_analysis* analysis,
                           const carnot_candidates* candidates,
                           const carnot_assignment* assignment) {
  const carnot_device* device = builder->config->device;
  for (uint32_t r = 0; r < analysis->region_count; r++) {
    const carnot_region_facts* f = &analysis->regions[r];
    const carnot_assigned_region* a = &assignment->regions[r];
    const carnot_candidate* chosen = carnot_assigned_candidate(assignment, candidates, r);
    const carnot_op_row* op = carnot_op_get(main_op(&f->region));
    if (device && lacks_device_tactic(f, a, candidates->sets[a->set])) {
      char message[512];
      snprintf(message, sizeof(message), "%s runs on the CPU: %s has no tactic for it (%s)",
               op->name, device->name, f->name);
      carnot_builder_warn(builder, message);
    }
    carnot_builder_log(builder, "Layer(%s): %s, Precision: %s, Tactic: %s, %.2f us", op->layer_type,
                       f->name, carnot_dtype_name(precision_of(chosen)), chosen->tactic->name,
                       chosen->ns == UINT64_MAX ? 0 : (double)chosen->ns * 1e-3);
  }
}
