// The validator of plans: after it, indices and enums may be used without looking.
#include <stdlib.h>
#include <string.h>

#include "plan/io_format.h"
#include "plan/plan.h"

#define CHECK(condition, ...) CARNOT_CHECK(condition, INVALID_MODEL, __VA_ARGS__)

static carnot_status* check_list(const uint32_t* items, uint32_t count, uint32_t limit,
                                 bool may_be_absent, const char* what) {
  for (uint32_t i = 0; i < count; i++)
    CHECK(items[i] < limit || (may_be_absent && items[i] == CARNOT_PLAN_NONE),
          "%s %u names %u, there are %u", what, i, items[i], limit);
  return NULL;
}

static carnot_status* check_value(const carnot_plan* plan, uint32_t index) {
  const carnot_plan_value* v = &plan->values[index];
  CHECK((unsigned)v->kind <= CARNOT_VALUE_OPTIONAL, "value %u (%s) has kind %d", index, v->name,
        (int)v->kind);
  CARNOT_TRY_AT(carnot_format_verify(&v->format), "value %u (%s)", index, v->name);
  bool on_device = carnot_memory_is_device(v->format.memory);
  CHECK(!on_device || (plan->device && strchr(plan->device, ':')),
        "value %u (%s) is in device memory, the engine is for %s", index, v->name,
        plan->device ? plan->device : "");
  CHECK(v->format.memory <= CARNOT_MEMORY_DEVICE,
        "value %u (%s) is in the memory of device %d, the engine has 1 device", index, v->name,
        carnot_memory_device_index(v->format.memory));
  const carnot_quantization* q = &v->format.quant;
  CHECK(q->scheme < CARNOT_QUANT_PER_AXIS ||
            (q->scales < plan->value_count &&
             (q->zero_points < plan->value_count || q->zero_points == CARNOT_PLAN_NONE)),
        "value %u (%s) has its scales in value %u and zero points in value %u of %u", index,
        v->name, q->scales, q->zero_points, plan->value_count);
  uint64_t arena_bytes =
      v->format.memory == CARNOT_MEMORY_DEVICE ? plan->device_arena_bytes : plan->arena_bytes;
  switch (v->storage) {
    case CARNOT_STORAGE_CONSTANT:
      CHECK(v->index < plan->blob_count, "value %u (%s) names weight %u of %u", index, v->name,
            v->index, plan->blob_count);
      CHECK(!plan->blobs[v->index].packing[0], "value %u (%s) names packed weight %u", index,
            v->name, v->index);
      break;
    case CARNOT_STORAGE_BINDING:
      CHECK(v->index < plan->binding_count, "value %u (%s) names tensor %u of %u", index, v->name,
            v->index, plan->binding_count);
      break;
    case CARNOT_STORAGE_ARENA:
      for (uint32_t p = 0; p < plan->profile_count; p++)
        CHECK(v->max_bytes <= arena_bytes && v->offsets[p] <= arena_bytes - v->max_bytes &&
                  v->offsets[p] % 64 == 0,
              "value %u (%s) lies at %llu +%llu of an arena of %llu bytes", index, v->name,
              (unsigned long long)v->offsets[p], (unsigned long long)v->max_bytes,
              (unsigned long long)arena_bytes);
      break;
    case CARNOT_STORAGE_SUBVIEW:
      CHECK(v->axis >= 0 && v->axis < CARNOT_MAX_RANK, "value %u (%s) is a part along axis %d",
            index, v->name, v->axis);
      CARNOT_TRY(check_list(v->before, v->before_count, plan->value_count, false, "part"));
      // fall through
    case CARNOT_STORAGE_ALIAS:
      CHECK(v->index < plan->value_count, "value %u (%s) refers to value %u of %u", index, v->name,
            v->index, plan->value_count);
      CHECK(plan->values[v->index].format.memory == v->format.memory,
            "value %u (%s) is in another memory space than value %u", index, v->name, v->index);
      break;
    default:
      CHECK((unsigned)v->storage < CARNOT_STORAGE_COUNT, "value %u (%s) has storage %d", index,
            v->name, (int)v->storage);
  }
  return NULL;
}

enum { kMostAliases = 256 };  // a dense block has a part in a part for each of its layers

// Aliases and parts end in real storage.
static carnot_status* check_alias_ends(const carnot_plan* plan, uint32_t index) {
  uint32_t at = index, steps = 0;
  while (plan->values[at].storage == CARNOT_STORAGE_ALIAS ||
         plan->values[at].storage == CARNOT_STORAGE_SUBVIEW) {
    at = plan->values[at].index;
    CHECK(++steps <= kMostAliases, "value %u (%s) refers to values in a cycle or over %d steps",
          index, plan->values[index].name, (int)kMostAliases);
  }
  return NULL;
}

static carnot_status* check_region(const carnot_plan* plan, const carnot_region* region,
                                   uint32_t input_count, uint32_t owner_block) {
  uint32_t defined = input_count;
  CHECK(region->node_count >= 1, "a step without operators");
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    const carnot_op_row* row = carnot_op_get(node->op);
    CHECK((int64_t)node->input_count >= row->min_inputs &&
              (row->max_inputs < 0 || (int64_t)node->input_count <= row->max_inputs),
          "operator %s has %u inputs", row->name, node->input_count);
    CHECK((int64_t)node->output_count >= row->min_outputs &&
              (row->max_outputs < 0 || (int64_t)node->output_count <= row->max_outputs),
          "operator %s has %u outputs", row->name, node->output_count);
    CARNOT_TRY(check_list(node->inputs, node->input_count, defined, true, "operand"));
    for (uint32_t i = 0; i < node->output_count; i++) {
      if (node->outputs[i] == CARNOT_PLAN_NONE) continue;
      CHECK(node->outputs[i] == defined, "operator %s gives value %u, must be %u", row->name,
            node->outputs[i], defined);
      defined++;
    }
    CARNOT_TRY_AT(carnot_attrs_check(row, &node->attrs), "step operator %s", node->name);
    for (size_t a = 0; a < node->attrs.count; a++) {
      const carnot_attr* attr = &node->attrs.items[a];
      if (attr->type != CARNOT_ATTR_BLOCK) continue;
      // Bodies come after the block that holds them, so nesting ends.
      CHECK(attr->block_index > (int64_t)owner_block &&
                attr->block_index < (int64_t)plan->block_count,
            "operator %s has body %lld of %u blocks", row->name, (long long)attr->block_index,
            plan->block_count);
    }
  }
  CHECK(defined == region->value_count, "a step has %u values, %u are defined", region->value_count,
        defined);
  return check_list(region->outputs, region->output_count, region->value_count, false, "result");
}

// What may not be written: constants and inputs, also under another name. Views write nothing.
static carnot_status* check_target(const carnot_plan* plan, const carnot_plan_step* step,
                                   uint32_t value) {
  const char* name = plan->values[value].name;
  bool is_view = true;
  for (uint32_t i = 0; i < step->variant_count; i++)
    is_view = is_view && strcmp(step->variants[i].tactic, "view") == 0;
  if (is_view && plan->values[value].storage == CARNOT_STORAGE_ALIAS) return NULL;
  while (plan->values[value].storage == CARNOT_STORAGE_ALIAS ||
         plan->values[value].storage == CARNOT_STORAGE_SUBVIEW)
    value = plan->values[value].index;
  const carnot_plan_value* v = &plan->values[value];
  CHECK(v->storage != CARNOT_STORAGE_CONSTANT, "writes the constant %s", name);
  CHECK(v->storage != CARNOT_STORAGE_BINDING || !plan->bindings[v->index].is_input,
        "writes the input %s", name);
  return NULL;
}

static carnot_status* check_step(const carnot_plan* plan, const carnot_plan_step* step,
                                 uint32_t block) {
  CARNOT_TRY(check_list(step->inputs, step->input_count, plan->value_count, true, "input"));
  CARNOT_TRY(check_list(step->outputs, step->output_count, plan->value_count, true, "output"));
  CARNOT_TRY(check_region(plan, &step->region, step->input_count, block));
  CHECK(step->output_count == step->region.output_count, "%u outputs, its operators give %u",
        step->output_count, step->region.output_count);
  for (uint32_t o = 0; o < step->output_count; o++) {
    if (step->outputs[o] == CARNOT_PLAN_NONE) continue;
    CARNOT_TRY(check_target(plan, step, step->outputs[o]));
  }
  uint32_t inner = step->region.value_count - step->input_count;
  CHECK(step->type_count == 0 || step->type_count == step->input_count + step->output_count + inner,
        "%u operand types for %u inputs, %u outputs and %u inner values", step->type_count,
        step->input_count, step->output_count, inner);
  for (uint32_t i = 0; i < step->variant_count; i++) {
    const carnot_variant* v = &step->variants[i];
    CHECK(v->constant_count <= 4, "variant %u has %u packed constants, at most 4", i,
          v->constant_count);
    CARNOT_TRY(
        check_list(v->constants, v->constant_count, plan->blob_count, false, "packed constant"));
    CHECK(v->guard_count == 0 || i + 1 < step->variant_count, "the last variant has guards");
    for (uint32_t g = 0; g < v->guard_count; g++)
      CHECK(v->guards[g].operand < step->input_count + step->output_count &&
                (v->guards[g].dim < CARNOT_MAX_RANK || v->guards[g].dim == CARNOT_GUARD_ELEMENTS) &&
                v->guards[g].multiple >= 1,
            "guard %u of variant %u names operand %u, dimension %u", g, i, v->guards[g].operand,
            v->guards[g].dim);
  }
  return NULL;
}

static carnot_status* check_block(const carnot_plan* plan, uint32_t index, uint32_t* next_step,
                                  bool* written) {
  const carnot_plan_block* block = &plan->blocks[index];
  CARNOT_TRY(check_list(block->params, block->param_count, plan->value_count, false, "parameter"));
  CARNOT_TRY(check_list(block->outputs, block->output_count, plan->value_count, false, "result"));
  CHECK(block->first_step == *next_step && block->step_count <= plan->step_count - *next_step,
        "block %u holds steps [%u, +%u) of %u", index, block->first_step, block->step_count,
        plan->step_count);
  *next_step += block->step_count;
  for (uint32_t i = 0; i < block->param_count; i++) {
    CHECK(!written[block->params[i]], "parameter %u of block %u is defined twice", i, index);
    written[block->params[i]] = true;
  }
  for (uint32_t s = block->first_step; s < *next_step; s++) {
    const carnot_plan_step* step = &plan->steps[s];
    CARNOT_TRY_AT(check_step(plan, step, index), "step %u (%s)", s, step->name);
    for (uint32_t i = 0; i < step->input_count; i++) {
      if (step->inputs[i] == CARNOT_PLAN_NONE) continue;
      const carnot_plan_value* v = &plan->values[step->inputs[i]];
      CHECK(written[step->inputs[i]] || v->storage == CARNOT_STORAGE_CONSTANT,
            "step %u (%s) reads %s before it is made", s, step->name, v->name);
    }
    for (uint32_t i = 0; i < step->output_count; i++) {
      if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
      CHECK(!written[step->outputs[i]], "step %u (%s) makes %s a second time", s, step->name,
            plan->values[step->outputs[i]].name);
      const carnot_plan_value* v = &plan->values[step->outputs[i]];
      CHECK(v->storage != CARNOT_STORAGE_ALIAS || written[v->index] ||
                plan->values[v->index].storage == CARNOT_STORAGE_CONSTANT,
            "step %u (%s) makes %s in the place of a value that is not made yet", s, step->name,
            v->name);
      written[step->outputs[i]] = true;
    }
  }
  for (uint32_t i = 0; i < block->output_count; i++)
    CHECK(written[block->outputs[i]] ||
              plan->values[block->outputs[i]].storage == CARNOT_STORAGE_CONSTANT,
          "result %u of block %u is never made", i, index);
  return NULL;
}

static carnot_status* check_io_format(const carnot_plan_binding* b) {
  if (b->format == CARNOT_TENSOR_LINEAR) return NULL;
  carnot_status* status = carnot_io_format_check(b->format, b->name, b->dtype, b->rank, b->dims);
  bool fits = status == NULL;
  carnot_status_free(status);
  CHECK(fits, "tensor %s of rank %d and type %s cannot have format %d", b->name, b->rank,
        carnot_dtype_name(b->dtype), (int)b->format);
  return NULL;
}

static carnot_status* check_binding(const carnot_plan* plan, uint32_t index) {
  const carnot_plan_binding* b = &plan->bindings[index];
  CHECK(b->value < plan->value_count, "tensor %s names value %u of %u", b->name, b->value,
        plan->value_count);
  CHECK((unsigned)b->dtype < CARNOT_DTYPE_COUNT, "tensor %s has type %d", b->name, (int)b->dtype);
  CHECK(b->dtype != CARNOT_DTYPE_F32 || !carnot_dtype_is_half(plan->values[b->value].format.dtype),
        "tensor %s of float32 is stored as %s", b->name,
        carnot_dtype_name(plan->values[b->value].format.dtype));
  CARNOT_TRY(check_io_format(b));
  for (int i = 0; i < b->rank; i++)
    CHECK(b->dims[i] >= -1, "tensor %s has dimension %lld", b->name, (long long)b->dims[i]);
  if (b->is_input) {
    const carnot_plan_value* v = &plan->values[b->value];
    CHECK(v->storage == CARNOT_STORAGE_BINDING && v->index == index,
          "input %s is not its value's storage", b->name);
  }
  uint32_t holders = 0;
  for (uint32_t i = 0; i < plan->value_count; i++)
    holders += plan->values[i].storage == CARNOT_STORAGE_BINDING && plan->values[i].index == index;
  CHECK(holders <= 1, "%u values lie in the memory of tensor %s", holders, b->name);
  return NULL;
}

carnot_status* carnot_plan_verify(const carnot_plan* plan) {
  CHECK(plan->block_count >= 1, "a plan without blocks");
  CHECK(plan->arena_bytes < (1ull << 48) && plan->device_arena_bytes < (1ull << 48) &&
            plan->workspace_bytes < (1ull << 48),
        "an arena of %llu bytes", (unsigned long long)plan->arena_bytes);
  // Values of unknown size begin where the arena of the others ends.
  CHECK(plan->arena_bytes % 64 == 0 && plan->device_arena_bytes % 64 == 0,
        "arenas of %llu and %llu bytes, must be multiples of 64",
        (unsigned long long)plan->arena_bytes, (unsigned long long)plan->device_arena_bytes);
  uint32_t flexible = 0;
  for (uint32_t i = 0; i < plan->value_count; i++) {
    CARNOT_TRY(check_value(plan, i));
    flexible += plan->values[i].storage == CARNOT_STORAGE_DYNAMIC_ARENA;
  }
  CHECK(flexible == plan->dynamic_count, "%u values are placed at run time, %u are stated",
        flexible, plan->dynamic_count);
  for (uint32_t i = 0; i < plan->value_count; i++) CARNOT_TRY(check_alias_ends(plan, i));
  for (uint32_t i = 0; i < plan->binding_count; i++) CARNOT_TRY(check_binding(plan, i));
  void* memory;
  CARNOT_TRY(carnot_calloc(plan->value_count, sizeof(bool), "the check of a plan", &memory));
  bool* written = memory;
  carnot_status* status = NULL;
  uint32_t next_step = 0;
  for (uint32_t i = 0; !status && i < plan->block_count; i++)
    status = check_block(plan, i, &next_step, written);
  for (uint32_t i = 0; !status && i < plan->refit_expr_count; i++)
    status = check_list(plan->refit_exprs[i].inputs, plan->refit_exprs[i].input_count,
                        plan->blob_count, false, "refit_expr input");
  for (uint32_t i = 0; !status && i < plan->blob_count; i++)
    if (plan->blobs[i].refit_expr != CARNOT_PLAN_NONE &&
        plan->blobs[i].refit_expr >= plan->refit_expr_count)
      status = CARNOT_ERROR(INVALID_MODEL, "weight %u names refit_expr %u of %u", i,
                            plan->blobs[i].refit_expr, plan->refit_expr_count);
  for (uint32_t i = 0; !status && i < plan->refit_expr_count; i++)
    status = check_region(plan, &plan->refit_exprs[i].region, plan->refit_exprs[i].input_count,
                          plan->block_count);
  free(memory);
  if (!status && next_step != plan->step_count)
    status = CARNOT_ERROR(INVALID_MODEL, "%u of %u steps are in no block",
                          plan->step_count - next_step, plan->step_count);
  return status;
}
