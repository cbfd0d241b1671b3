// Steps of oneDNN: their primitives and the execution of these.
#include "backend/cpu/onednn/onednn_step.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "backend/cpu/onednn/onednn_pass.h"
#include "backend/cpu/onednn/onednn_weights.h"

enum { kMostArguments = 5 };

// The arguments of a primitive, in this order; absent ones have no memory.
typedef enum argument_index { kSrc, kWeights, kBias, kDst, kScratchpad } argument_index;
static const int kNumbers[kMostArguments] = {[kSrc] = ONEDNN_ARG_SRC,
                                             [kWeights] = ONEDNN_ARG_WEIGHTS,
                                             [kBias] = ONEDNN_ARG_BIAS,
                                             [kDst] = ONEDNN_ARG_DST,
                                             [kScratchpad] = ONEDNN_ARG_SCRATCHPAD};

typedef struct compiled_part {
  onednn_primitive* primitive;
  onednn_stream* stream;
  onednn_memory* memories[kMostArguments];
  size_t weights_at, scratchpad_at, stage_at;  // bytes of constant 0 and of the workspace
  // Those of constant 0 in another layout; NULL: as they lie there. Parts of one shape share them.
  void* own_weights;
  bool owns_weights;
} compiled_part;

typedef struct instance {
  const carnot_onednn* library;
  carnot_onednn_parts parts;
  compiled_part compiled[CARNOT_ONEDNN_MAX_PARTS];
  carnot_onednn_pass pass;
  size_t workspace_bytes;
  const void* packed;  // constant 0 that own weights were made from
} instance;

static size_t align_up(size_t bytes) { return carnot_align_up(bytes, CARNOT_ONEDNN_ALIGN); }

// ---- load ----

static void release(instance* all) {
  const carnot_onednn* library = all->library;
  for (int64_t i = 0; i < all->parts.count; i++) {
    compiled_part* c = &all->compiled[i];
    for (int a = 0; a < kMostArguments; a++)
      if (c->memories[a]) library->memory_destroy(c->memories[a]);
    if (c->stream) library->stream_destroy(c->stream);
    if (c->primitive) library->primitive_destroy(c->primitive);
    if (c->owns_weights) free(c->own_weights);
    *c = (compiled_part){0};
  }
  all->parts.count = 0;
}

carnot_status* carnot_onednn_step_open(const carnot_step_view* step, void** out_instance) {
  (void)step;
  CARNOT_TRY(carnot_calloc(1, sizeof(instance), "primitives of oneDNN", out_instance));
  return carnot_onednn_open(&((instance*)*out_instance)->library);
}

void carnot_onednn_step_close(void* opened) {
  release(opened);
  free(opened);
}

static carnot_status* make_memories(const carnot_onednn* library, const onednn_primitive_desc* desc,
                                    const carnot_onednn_shape* shape, compiled_part* c) {
  const bool has[kMostArguments] = {[kSrc] = true,
                                    [kWeights] = true,
                                    [kBias] = shape->has_bias,
                                    [kDst] = true,
                                    [kScratchpad] = true};
  for (int a = 0; a < kMostArguments; a++)
    if (has[a])
      CARNOT_ONEDNN_TRY(library, memory_create, &c->memories[a],
                        library->primitive_desc_query_md(desc, ONEDNN_QUERY_ARGUMENT, kNumbers[a]),
                        library->engine, NULL);
  return NULL;
}

static carnot_status* make_own_weights(const instance* all, const carnot_onednn_descriptions* d,
                                       int64_t i, compiled_part* c) {
  const int64_t column = all->parts.items[i].column;
  const onednn_memory_desc* to =
      all->library->primitive_desc_query_md(d->of[i], ONEDNN_QUERY_ARGUMENT, ONEDNN_ARG_WEIGHTS);
  const size_t bytes = align_up(all->library->memory_desc_get_size(to));
  c->own_weights = aligned_alloc(CARNOT_ONEDNN_ALIGN, bytes);
  c->owns_weights = true;
  if (!c->own_weights) return CARNOT_NO_MEMORY(bytes, "weights in another layout");
  return carnot_onednn_reorder(all->library, d->weights[column], to,
                               (const char*)all->packed + d->weights_at[column], c->own_weights);
}

static carnot_status* compile_part(instance* all, const carnot_onednn_descriptions* d, int64_t i) {
  const carnot_onednn* library = all->library;
  const carnot_onednn_part* part = &all->parts.items[i];
  compiled_part* c = &all->compiled[i];
  CARNOT_ONEDNN_TRY(library, primitive_create, &c->primitive, d->of[i]);
  CARNOT_ONEDNN_TRY(library, stream_create, &c->stream, library->engine, ONEDNN_STREAM_IN_ORDER);
  CARNOT_TRY(make_memories(library, d->of[i], &part->shape, c));
  c->weights_at = d->weights_at[part->column];
  c->own_weights = all->compiled[d->twin[i]].own_weights;
  if (d->repacks[i] && d->twin[i] == i) CARNOT_TRY(make_own_weights(all, d, i, c));
  c->scratchpad_at = all->workspace_bytes;
  const onednn_memory_desc* scratchpad =
      library->primitive_desc_query_md(d->of[i], ONEDNN_QUERY_ARGUMENT, ONEDNN_ARG_SCRATCHPAD);
  c->stage_at = align_up(c->scratchpad_at + library->memory_desc_get_size(scratchpad));
  const size_t stage = all->parts.is_staged
                           ? (size_t)(carnot_onednn_part_rows(part) * part->shape.k) * sizeof(float)
                           : 0;
  all->workspace_bytes = align_up(c->stage_at + stage);
  return NULL;
}

// Makes the primitives of |parts|.
static carnot_status* compile(const carnot_step_view* step, instance* all,
                              const carnot_onednn_parts* parts) {
  carnot_onednn_descriptions d;
  CARNOT_TRY(carnot_onednn_describe_parts(parts, &d));
  carnot_status* status = NULL;
  if (step->constant_bytes[0] != d.bytes ||
      memcmp(step->constants[0], &d.header, sizeof(d.header)) != 0)
    status = CARNOT_ERROR(VERSION_MISMATCH,
                          "oneDNN lays weights out in %zu bytes on this processor, the engine has "
                          "%zu in another layout: build it again here",
                          d.bytes, step->constant_bytes[0]);
  const int saved = carnot_onednn_enter(d.library);
  all->parts = *parts;
  all->workspace_bytes = 0;
  all->packed = step->constants[0];
  for (int64_t i = 0; i < parts->count && !status; i++) status = compile_part(all, &d, i);
  carnot_onednn_leave(d.library, saved);
  carnot_onednn_forget(parts, &d);
  if (status) release(all);
  return status;
}

carnot_status* carnot_onednn_configure(const carnot_step_view* step,
                                       const carnot_onednn_parts* parts,
                                       const carnot_onednn_result* result,
                                       size_t* out_workspace_bytes) {
  instance* all = step->instance;
  all->pass = carnot_onednn_pass_of(parts, result);
  // A second call with the same sizes finds the primitives.
  if (memcmp(&all->parts, parts, sizeof(*parts)) != 0) {
    release(all);
    CARNOT_TRY(compile(step, all, parts));
  }
  *out_workspace_bytes = all->workspace_bytes;
  return NULL;
}

// ---- run ----

typedef struct step_run {
  const carnot_step_view* step;
  const instance* all;
  const carnot_epilogue_plan* plan;
  const carnot_operand *src, *inputs, *dst;
  const float* bias;
  char* workspace;
  atomic_int result;  // of the first primitive that failed
} step_run;

static char* element(const carnot_operand* t, int64_t index) {
  return (char*)t->data + index * (carnot_dtype_bits(t->format.dtype) / 8);
}

static int64_t dst_at(const step_run* run, const carnot_onednn_part* part) {
  return part->m0 * run->all->parts.ld + part->n0;
}

static int execute(const step_run* run, const carnot_onednn_part* part, const compiled_part* c) {
  const carnot_onednn* library = run->all->library;
  char* const constant = (char*)(uintptr_t)run->step->constants[0];
  char* const data[kMostArguments] = {
      [kSrc] = element(run->src, part->src_at),
      [kWeights] = c->own_weights ? c->own_weights : constant + c->weights_at,
      [kBias] = run->bias ? (char*)(uintptr_t)(run->bias + part->n0) : NULL,
      [kDst] = run->all->parts.is_staged ? run->workspace + c->stage_at
                                         : element(run->dst, dst_at(run, part)),
      [kScratchpad] = run->workspace + c->scratchpad_at};
  onednn_argument arguments[kMostArguments];
  int count = 0, result = ONEDNN_SUCCESS;
  for (int a = 0; a < kMostArguments && result == ONEDNN_SUCCESS; a++) {
    if (!c->memories[a]) continue;
    result = library->memory_set_data_handle(c->memories[a], data[a]);
    arguments[count++] = (onednn_argument){kNumbers[a], c->memories[a]};
  }
  if (result == ONEDNN_SUCCESS)
    result = library->primitive_execute(c->primitive, c->stream, count, arguments);
  return result == ONEDNN_SUCCESS ? library->stream_wait(c->stream) : result;
}

// The primitive adds to the result, which is the residual before.
static void copy_residual(const step_run* run, const carnot_onednn_part* part) {
  const int64_t at = dst_at(run, part), count = carnot_onednn_part_rows(part) * part->shape.k;
  memcpy(element(run->dst, at), element(&run->inputs[run->plan->residual], at),
         (size_t)(count * carnot_dtype_bits(run->dst->format.dtype) / 8));
}

static void finish(const step_run* run, const carnot_onednn_part* part, const compiled_part* c) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(run->step->machine_isa);
  const int64_t rows = carnot_onednn_part_rows(part), columns = part->shape.k,
                ld = run->all->parts.ld, at = dst_at(run, part);
  const carnot_onednn_tile tile = {
      .rows = rows,
      .columns = columns,
      .ld = ld,
      .dst = element(run->dst, at),
      .stage = run->all->parts.is_staged ? run->workspace + c->stage_at : NULL,
      .residual = run->plan->residual >= 0 ? element(&run->inputs[run->plan->residual], at) : NULL};
  carnot_onednn_pass_run(kernels, &run->all->pass, &tile);
  carnot_epilogue_plan_run(kernels, run->plan, run->inputs, run->dst->data, ld, part->m0,
                           part->m0 + rows, part->n0, part->n0 + columns);
}

static void run_part(void* argument, int64_t i) {
  step_run* run = argument;
  const carnot_onednn_part* part = &run->all->parts.items[i];
  const compiled_part* c = &run->all->compiled[i];
  const int saved = carnot_onednn_enter(run->all->library);
  if (part->shape.sums) copy_residual(run, part);
  const int result = execute(run, part, c);
  carnot_onednn_leave(run->all->library, saved);
  if (result == ONEDNN_SUCCESS)
    finish(run, part, c);
  else
    atomic_store(&run->result, result);
}

carnot_status* carnot_onednn_run(const carnot_step_view* step, const carnot_epilogue_plan* plan,
                                 const carnot_operand* src, const float* bias,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  instance* all = step->instance;
  // Weights that were set again are packed again.
  if (all->packed != step->constants[0]) {
    const carnot_onednn_parts parts = all->parts;
    release(all);
    CARNOT_TRY(compile(step, all, &parts));
  }
  step_run run = {.step = step,
                  .all = all,
                  .plan = plan,
                  .src = src,
                  .inputs = inputs,
                  .dst = &outputs[0],
                  .bias = bias,
                  .workspace = workspace};
  carnot_executor_parallel(executor, all->parts.count, run_part, &run);
  return carnot_onednn_check(atomic_load(&run.result), "primitive_execute");
}
