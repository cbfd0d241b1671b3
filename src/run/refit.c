// Refit: new weights, the constants derived from them, packed constants, a new generation.
#include "run/refit.h"

#include <stdlib.h>

#include "backend/device.h"
#include "ops/execute.h"

struct carnot_refit {
  carnot_call_host host;  // first: reference kernels take their memory from here
  carnot_engine* engine;
  carnot_weights* old;
  carnot_tensor* tensors;  // by blob; data NULL: not given
  bool* changed;           // by blob
  void** owned;            // by blob: memory that the new generation takes over
  carnot_arena arena;
  carnot_infer_scratch scratch;
};

static carnot_status* refit_alloc(const carnot_call_host* host, size_t bytes, void** out_memory) {
  carnot_refit* refit = (carnot_refit*)host;
  char* memory;
  CARNOT_TRY(carnot_arena_try(&refit->arena, bytes + 64, 1, "refit", (void**)&memory));
  *out_memory = (void*)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  return NULL;
}

carnot_status* carnot_refit_begin(carnot_engine* engine, carnot_refit** out_refit) {
  *out_refit = NULL;
  CARNOT_CHECK(engine->plan->refittable, FAILED_PRECONDITION,
               "the engine was not built for refit: build it with --refit");
  void *memory, *tensors, *changed, *owned;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_refit), "refit", &memory));
  carnot_refit* refit = memory;
  refit->host = (carnot_call_host){.alloc = refit_alloc};
  carnot_infer_scratch_init(&refit->scratch);
  refit->engine = engine;
  carnot_engine_retain(engine);
  refit->old = carnot_engine_take_weights(engine);
  uint32_t count = engine->plan->blob_count + 1;
  carnot_status* status = carnot_arena_prepare(&refit->arena);
  if (!status) status = carnot_calloc(count, sizeof(carnot_tensor), "refit", &tensors);
  if (!status)
    refit->tensors = tensors, status = carnot_calloc(count, sizeof(bool), "refit", &changed);
  if (!status)
    refit->changed = changed, status = carnot_calloc(count, sizeof(void*), "refit", &owned);
  if (!status) refit->owned = owned;
  if (status) {
    carnot_refit_free(refit);
    return status;
  }
  *out_refit = refit;
  return NULL;
}

void carnot_refit_free(carnot_refit* refit) {
  if (!refit) return;
  for (uint32_t i = 0; refit->owned && i < refit->engine->plan->blob_count; i++)
    free(refit->owned[i]);
  free(refit->owned);
  free(refit->tensors);
  free(refit->changed);
  carnot_infer_scratch_deinit(&refit->scratch);
  carnot_arena_deinit(&refit->arena);
  carnot_engine_drop_weights(refit->engine, refit->old);
  carnot_engine_release(refit->engine);
  free(refit);
}

// Memory for blob |index| in the new generation.
static carnot_status* own_blob(carnot_refit* refit, uint32_t index, const void* data,
                               size_t bytes) {
  free(refit->owned[index]);
  refit->owned[index] = aligned_alloc(64, carnot_align_up(bytes + 1, 64));
  if (!refit->owned[index]) return CARNOT_NO_MEMORY(bytes, "a refitted weight");
  if (bytes) memcpy(refit->owned[index], data, bytes);
  refit->changed[index] = true;
  return NULL;
}

static const void* data_of(const carnot_refit* refit, uint32_t index) {
  return refit->owned[index] ? refit->owned[index] : refit->old->data[index];
}

const char* carnot_refit_name(const carnot_refit* refit, uint32_t index) {
  const carnot_plan* plan = refit->engine->plan;
  for (uint32_t i = 0; i < plan->blob_count; i++)
    if (plan->blobs[i].name[0] && index-- == 0) return plan->blobs[i].name;
  return NULL;
}

const char* carnot_refit_missing(const carnot_refit* refit) {
  const carnot_plan* plan = refit->engine->plan;
  for (uint32_t i = 0; i < plan->blob_count; i++)
    if (plan->blobs[i].name[0] && !data_of(refit, i)) return plan->blobs[i].name;
  return NULL;
}

carnot_status* carnot_refit_weight(const carnot_refit* refit, const char* name,
                                   carnot_dtype* out_dtype, carnot_dims* out_dims,
                                   const void** out_data) {
  const carnot_plan* plan = refit->engine->plan;
  for (uint32_t i = 0; name && name[0] && i < plan->blob_count; i++) {
    if (strcmp(plan->blobs[i].name, name) != 0) continue;
    const carnot_tensor* t = &plan->blobs[i].tensor;
    if (out_dtype) *out_dtype = t->dtype;
    if (out_dims) {
      out_dims->rank = t->rank;
      memcpy(out_dims->d, t->dims, sizeof(out_dims->d));
    }
    if (out_data) *out_data = data_of(refit, i);
    return NULL;
  }
  return CARNOT_ERROR(NOT_FOUND, "the engine has no weight %s that can be refitted",
                      name ? name : "NULL");
}

carnot_status* carnot_refit_set(carnot_refit* refit, const char* name,
                                const carnot_tensor* tensor) {
  const carnot_plan* plan = refit->engine->plan;
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    const carnot_plan_blob* blob = &plan->blobs[i];
    if (strcmp(blob->name, name) != 0) continue;
    const carnot_tensor* t = &blob->tensor;
    bool same =
        t->dtype == tensor->dtype && t->rank == tensor->rank && t->dtype != CARNOT_DTYPE_STRING;
    for (int d = 0; same && d < t->rank; d++) same = t->dims[d] == tensor->dims[d];
    char wanted[128], found[128];
    carnot_dims_print(t->dims, t->rank, wanted, sizeof(wanted));
    carnot_dims_print(tensor->dims, tensor->rank, found, sizeof(found));
    CARNOT_CHECK(same, INVALID_ARGUMENT, "weight %s is %s %s, must be %s %s", name,
                 carnot_dtype_name(tensor->dtype), found, carnot_dtype_name(t->dtype), wanted);
    return own_blob(refit, i, tensor->data, carnot_tensor_bytes(tensor));
  }
  return CARNOT_ERROR(NOT_FOUND, "the engine has no weight %s that can be refitted", name);
}

// ---- derived constants ----

static carnot_status* run_refit_expr(carnot_refit* refit, const carnot_refit_expr* refit_expr,
                                     carnot_rt_value* locals) {
  const carnot_plan* plan = refit->engine->plan;
  for (uint32_t i = 0; i < refit_expr->input_count; i++) {
    locals[i] = (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR,
                                  .tensor = plan->blobs[refit_expr->inputs[i]].tensor};
    locals[i].tensor.data = (void*)data_of(refit, refit_expr->inputs[i]);
    CARNOT_CHECK(locals[i].tensor.data, FAILED_PRECONDITION, "weight %s has no data",
                 plan->blobs[refit_expr->inputs[i]].name);
  }
  for (uint32_t n = 0; n < refit_expr->region.node_count; n++) {
    const carnot_plan_node* node = &refit_expr->region.nodes[n];
    const carnot_rt_value** inputs =
        CARNOT_NEW_ARRAY(&refit->arena, const carnot_rt_value*, node->input_count + 1);
    carnot_rt_value** outputs =
        CARNOT_NEW_ARRAY(&refit->arena, carnot_rt_value*, node->output_count + 1);
    CARNOT_TRY(carnot_arena_status(&refit->arena));
    for (uint32_t i = 0; i < node->input_count; i++)
      inputs[i] = node->inputs[i] == CARNOT_PLAN_NONE ? NULL : &locals[node->inputs[i]];
    for (uint32_t i = 0; i < node->output_count; i++)
      outputs[i] = node->outputs[i] == CARNOT_PLAN_NONE ? NULL : &locals[node->outputs[i]];
    CARNOT_CHECK(!(carnot_op_get(node->op)->flags & CARNOT_OP_CONTROL), INVALID_MODEL,
                 "a refit_expr holds control flow");
    CARNOT_TRY_AT(
        carnot_execute(&refit->scratch, carnot_op_get(node->op), &node->attrs, &refit->host,
                       (int)node->input_count, inputs, (int)node->output_count, outputs),
        "node %s", node->name);
  }
  return NULL;
}

static carnot_status* derive(carnot_refit* refit, uint32_t index) {
  const carnot_plan* plan = refit->engine->plan;
  const carnot_plan_blob* blob = &plan->blobs[index];
  if (blob->refit_expr == CARNOT_PLAN_NONE) return NULL;
  const carnot_refit_expr* refit_expr = &plan->refit_exprs[blob->refit_expr];
  bool needed = !data_of(refit, index);
  for (uint32_t i = 0; i < refit_expr->input_count; i++)
    needed |= refit->changed[refit_expr->inputs[i]];
  if (!needed) return NULL;
  carnot_rt_value* locals =
      CARNOT_NEW_ARRAY(&refit->arena, carnot_rt_value, refit_expr->region.value_count + 1);
  CARNOT_TRY(carnot_arena_status(&refit->arena));
  CARNOT_TRY(run_refit_expr(refit, refit_expr, locals));
  const carnot_tensor* made = &locals[refit_expr->region.outputs[0]].tensor;
  bool same = made->dtype == blob->tensor.dtype && made->rank == blob->tensor.rank;
  for (int d = 0; same && d < made->rank; d++) same = made->dims[d] == blob->tensor.dims[d];
  CARNOT_CHECK(same, INVALID_MODEL, "a refit_expr gives another shape than the constant it is for");
  return own_blob(refit, index, made->data, carnot_tensor_bytes(made));
}

// ---- packing ----

static carnot_status* repack(carnot_refit* refit, uint32_t index) {
  const carnot_plan* plan = refit->engine->plan;
  const carnot_plan_step* step = &plan->steps[index];
  if (!step->type_count) return NULL;
  bool needed = false, lacking = false;
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_plan_value* v =
        step->inputs[i] == CARNOT_PLAN_NONE ? NULL : &plan->values[step->inputs[i]];
    if (v && v->storage == CARNOT_STORAGE_CONSTANT) needed |= refit->changed[v->index];
  }
  for (uint32_t k = 0; k < step->variant_count; k++)
    for (uint32_t c = 0; c < step->variants[k].constant_count; c++)
      lacking |= !data_of(refit, step->variants[k].constants[c]);
  if (!needed && !lacking) return NULL;
  carnot_operand_desc* types =
      carnot_arena_copy(&refit->arena, step->types, step->type_count * sizeof(*types));
  CARNOT_TRY(carnot_arena_status(&refit->arena));
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_plan_value* v =
        step->inputs[i] == CARNOT_PLAN_NONE ? NULL : &plan->values[step->inputs[i]];
    types[i].is_constant = v && v->storage == CARNOT_STORAGE_CONSTANT;
    if (!types[i].is_constant) continue;
    carnot_tensor* tensor =
        carnot_arena_copy(&refit->arena, &plan->blobs[v->index].tensor, sizeof(*tensor));
    CARNOT_TRY(carnot_arena_status(&refit->arena));
    tensor->data = (void*)data_of(refit, v->index);
    CARNOT_CHECK(tensor->data, FAILED_PRECONDITION, "weight %s has no data",
                 plan->blobs[v->index].name);
    types[i].tensor = tensor;
    types[i].rank = tensor->rank;
    types[i].format.dtype = tensor->dtype;
    types[i].kind = CARNOT_VALUE_TENSOR;
    memcpy(types[i].dims, tensor->dims, sizeof(tensor->dims));
  }
  carnot_problem problem = {.region = &step->region,
                            .input_count = step->input_count,
                            .output_count = step->output_count,
                            .inputs = types,
                            .outputs = types + step->input_count,
                            .inner = types + step->input_count + step->output_count,
                            .isa = (carnot_isa)plan->isa};
  for (uint32_t k = 0; k < step->variant_count; k++) {
    const carnot_variant* variant = &step->variants[k];
    const carnot_tactic* tactic = carnot_tactic_find(variant->tactic);
    CARNOT_CHECK(tactic, VERSION_MISMATCH, "step %s needs tactic %s, which this runtime lacks",
                 step->name, variant->tactic);
    if (!tactic->prepare || !variant->constant_count) continue;
    const carnot_prepared standing = {.params = variant->params,
                                      .param_bytes = variant->param_bytes};
    problem.tactic = tactic;
    problem.device = NULL;
    problem.previous = &standing;
    if (tactic->device) CARNOT_TRY(carnot_device_open(plan->device, &problem.device));
    char reason[256];
    const char* why = tactic->device ? NULL : tactic->reject(&problem, reason, sizeof(reason));
    CARNOT_CHECK(!why, INVALID_MODEL, "step %s: tactic %s does not take the new weights: %s",
                 step->name, tactic->name, why);
    carnot_prepared prepared = {.arena = &refit->arena};
    CARNOT_TRY_AT(tactic->prepare(&problem, &prepared), "step %s", step->name);
    CARNOT_CHECK(prepared.constant_count == variant->constant_count, INVALID_MODEL,
                 "step %s packs %u constants, the engine has %u", step->name,
                 prepared.constant_count, variant->constant_count);
    CARNOT_CHECK(
        prepared.param_bytes == variant->param_bytes &&
            memcmp(prepared.params, variant->params, variant->param_bytes) == 0,
        UNSUPPORTED,
        "step %s: the new weights change what was decided at build (a scale that the kernel "
        "holds as a number, a bias that became zero): build the engine anew",
        step->name);
    for (uint32_t c = 0; c < variant->constant_count; c++) {
      uint32_t blob = variant->constants[c];
      CARNOT_CHECK(strcmp(prepared.constants[c].packing, plan->blobs[blob].packing) == 0,
                   UNSUPPORTED,
                   "step %s: the new weights change its program (%s, the engine's is %s)",
                   step->name, prepared.constants[c].packing, plan->blobs[blob].packing);
      if (!prepared.constants[c].data) continue;
      CARNOT_CHECK((int64_t)prepared.constants[c].bytes == plan->blobs[blob].tensor.dims[0],
                   INVALID_MODEL, "step %s packs %zu bytes, the engine has %lld", step->name,
                   prepared.constants[c].bytes, (long long)plan->blobs[blob].tensor.dims[0]);
      CARNOT_TRY(own_blob(refit, blob, prepared.constants[c].data, prepared.constants[c].bytes));
    }
  }
  return NULL;
}

// ---- publishing ----

static carnot_status* publish(carnot_refit* refit) {
  const carnot_plan* plan = refit->engine->plan;
  void *memory, *data;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_weights), "weights", &memory));
  carnot_weights* weights = memory;
  carnot_status* status = carnot_calloc(plan->blob_count + 1, sizeof(void*), "weights", &data);
  if (status) {
    free(weights);
    return status;
  }
  weights->references = 1;
  weights->data = data;
  weights->owned = refit->owned;
  weights->owned_count = plan->blob_count;
  weights->previous = refit->old;  // data that did not change may live in it
  for (uint32_t i = 0; i < plan->blob_count; i++) weights->data[i] = data_of(refit, i);
  refit->owned = NULL;
  refit->old = NULL;
  carnot_engine_publish(refit->engine, weights);
  return NULL;
}

carnot_status* carnot_refit_commit(carnot_refit* refit) {
  const char* missing = carnot_refit_missing(refit);
  CARNOT_CHECK(!missing, FAILED_PRECONDITION,
               "weight %s was stripped from the engine and is not set", missing);
  CARNOT_CHECK(refit->owned, FAILED_PRECONDITION, "this refit was committed already");
  for (uint32_t i = 0; i < refit->engine->plan->blob_count; i++) CARNOT_TRY(derive(refit, i));
  for (uint32_t i = 0; i < refit->engine->plan->step_count; i++) CARNOT_TRY(repack(refit, i));
  return publish(refit);
}
