// Runs chains of convolutions by blocks of output rows: the expanded rows under a block, the
// depthwise convolution, the projection.
#include <stdatomic.h>

#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv_chain.h"

enum {
  kSlotBytes = 384 * 1024,  // of both buffers of a slot: half of a core's L2 or less
  kMaxSlots = 16,           // blocks computed at once
  kBlocks = 8               // of an image, or a multiple
};

// ---- shape change ----

typedef struct chain_state {
  carnot_window_geometry window;               // of the depthwise convolution, over one image
  carnot_window_geometry first;                // of the first convolution
  int64_t images, src_n, src_c, src_h, src_w;  // of the input
  int64_t channels;                            // of the depthwise convolution
  int64_t ld;                                  // of the result
  int64_t block_count, slot_count;             // blocks of an image
  int64_t expanded_rows;                       // that a slot holds
  int64_t expanded_floats, slot_floats;        // of the first buffer of a slot, of both
} chain_state;

// The operand of |channels| that lies between two convolutions, of the rows and columns of |like|.
static carnot_operand inner_operand(const carnot_operand* like, int64_t channels) {
  carnot_operand t = *like;
  t.dims[1] = channels;
  t.strides[1] = 1;
  t.strides[3] = channels;
  t.strides[2] = channels * t.dims[3];
  t.strides[0] = t.strides[2] * t.dims[2];
  t.format.dtype = CARNOT_DTYPE_F32;
  return t;
}

// The same behind the first convolution, whose window may have a stride.
static carnot_operand first_result(const carnot_conv_params* p, const carnot_operand* x) {
  carnot_operand like = *x;
  for (int d = 0; d < 2; d++) {
    const carnot_sliding_window* w = &p->window;
    const int64_t span = (w->kernel[d] - 1) * w->dilations[d] + 1,
                  padded = x->dims[d + 2] + w->begin[d] + w->end[d];
    like.dims[d + 2] = padded < span ? 0 : (padded - span) / w->strides[d] + 1;
  }
  return inner_operand(&like, p->filters);
}

// Input rows under |rows| output rows.
static int64_t rows_under(const carnot_window_geometry* w, int64_t rows) {
  return carnot_min_i64(w->h, (rows - 1) * w->stride_h + (w->r - 1) * w->dilation_h + 1);
}

static int64_t first_row(const chain_state* s, int64_t block) {
  return s->window.p * block / s->block_count;
}

// Blocks are as many as spread evenly over threads, and more where a block would not fit.
static void cut_rows(const carnot_conv_chain_params* p, chain_state* s) {
  const carnot_window_geometry* w = &s->window;
  const bool expands = p->depthwise > 0, projects = p->depthwise + 1 < p->count;
  const int64_t row = expands ? w->w * s->channels : 0, out_row = projects ? w->q * s->channels : 0;
  const int64_t room = kSlotBytes / (int64_t)sizeof(float);
  int64_t rows;
  for (s->block_count = kBlocks;; s->block_count += kBlocks) {
    rows = carnot_ceildiv(w->p, s->block_count);
    if (rows == 1 || rows_under(w, rows) * row + rows * out_row <= room) break;
  }
  s->block_count = carnot_min_i64(s->block_count, w->p);
  s->slot_count = carnot_min_i64(kMaxSlots, s->images * s->block_count);
  // What is left holds further rows, so that those of the next block rarely move.
  const int64_t fit = row ? (room - rows * out_row) / row : 0;
  s->expanded_rows = carnot_max_i64(rows_under(w, rows), carnot_min_i64(w->h, fit));
  s->expanded_floats = (int64_t)carnot_align_up((size_t)(s->expanded_rows * row), 16);
  s->slot_floats = s->expanded_floats + (int64_t)carnot_align_up((size_t)(rows * out_row), 16);
}

carnot_status* carnot_conv_chain_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* memory,
                                           size_t* out_workspace_bytes) {
  const carnot_conv_chain_params* p = step->params;
  chain_state* s = memory;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_operand pixels = *x;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && carnot_cpu_is_f32_value(step, x) &&
                   carnot_cpu_is_f32_value(step, y),
               INVALID_MODEL, "operands of rank %d and %d", x->rank, y->rank);
  const bool is_few = p->depthwise > 0 && !carnot_conv_is_point(&p->stages[0]);
  s->src_c = x->strides[1];
  if (is_few) pixels.strides[1] = 1;
  const carnot_operand before = p->depthwise ? first_result(&p->stages[0], x) : *x;
  const bool projects = p->depthwise + 1 < p->count;
  const carnot_operand after = projects ? inner_operand(y, p->stages[p->depthwise].filters) : *y;
  carnot_window_geometry last;
  CARNOT_TRY(carnot_window_geometry_of(&p->stages[0].window, &pixels,
                                       p->depthwise ? &before : &after, &s->first));
  CARNOT_TRY(
      carnot_window_geometry_of(&p->stages[p->depthwise].window, &before, &after, &s->window));
  CARNOT_TRY(carnot_window_geometry_of(&p->stages[p->count - 1].window, projects ? &after : &before,
                                       y, &last));
  CARNOT_CHECK(s->first.c == p->stages[0].channels && last.k == p->stages[p->count - 1].filters,
               INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)s->first.c, (long long)last.k, (long long)p->stages[0].channels,
               (long long)p->stages[p->count - 1].filters);
  s->images = s->first.n;
  s->src_n = s->first.src_n, s->src_h = s->first.src_h, s->src_w = s->first.src_w;
  s->channels = p->stages[p->depthwise].channels;
  s->ld = last.ld;
  for (int i = 0; i < p->count; i++)
    CARNOT_TRY(carnot_epilogue_plan_check(step, &p->stages[i].epilogue_plan, inputs, y,
                                          p->stages[i].filters));
  cut_rows(p, s);
  *out_workspace_bytes = (size_t)(s->slot_count * s->slot_floats) * sizeof(float);
  return NULL;
}

// ---- run ----

// A buffer of expanded rows: [begin, end) of |image|, from the buffer's first row on. One block at
// a time has a slot.
typedef struct chain_slot {
  int64_t image, begin, end;
} chain_slot;

typedef struct chain_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_conv_chain_params* params;
  const chain_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
  const float* biases[CARNOT_CONV_CHAIN_MAX_STAGES];
  _Atomic uint32_t taken;  // bit set of slots
  chain_slot slots[kMaxSlots];
} chain_run;

// The lowest free slot: threads that return one mostly get the same again, with the rows that the
// next block shares with this one.
static int take_slot(chain_run* run) {
  uint32_t taken = atomic_load_explicit(&run->taken, memory_order_relaxed);
  for (;;) {
    const int slot = __builtin_ctz(~taken);
    if (slot >= run->state->slot_count) {
      taken = atomic_load_explicit(&run->taken, memory_order_relaxed);
      continue;
    }
    if (atomic_compare_exchange_weak_explicit(&run->taken, &taken, taken | 1u << slot,
                                              memory_order_acquire, memory_order_relaxed))
      return slot;
  }
}

static void return_slot(chain_run* run, int slot) {
  atomic_fetch_and_explicit(&run->taken, ~(1u << slot), memory_order_release);
}

// A 1x1 convolution with its epilogue over |m| pixels that follow one another |lda| floats apart;
// |pixel|: the first one's number in the result of the step, for operands of the last stage.
static void point(const chain_run* run, int stage, const float* a, int64_t lda, float* c,
                  int64_t ldc, int64_t m) {
  const carnot_conv_params* p = &run->params->stages[stage];
  carnot_gemm_f32 gemm = {.m = m,
                          .n = p->filters,
                          .k = p->channels,
                          .a = a,
                          .lda = lda,
                          .b = run->step->constants[stage],
                          .c = c,
                          .ldc = ldc};
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs, p->has_bias ? run->biases[stage] : NULL,
                            &gemm.epilogue);
  if (gemm.epilogue.residual)
    gemm.epilogue.residual +=
        (c - (const float*)run->outputs[0].data) / ldc * gemm.epilogue.residual_ld;
  carnot_packed_weights_gemm(run->kernels, (carnot_weights_type)p->weights)(&gemm, 0, m, 0,
                                                                            p->filters);
}

// Rows [begin, end) of what a first convolution of few channels makes of |image|.
static void few(const chain_run* run, int64_t image, int64_t begin, int64_t end, float* dst) {
  const chain_state* s = run->state;
  const carnot_conv_params* p = &run->params->stages[0];
  carnot_conv2d_few_f32 conv = {CARNOT_WINDOW_FIELDS(&s->first),
                                .c = p->channels,
                                .k = p->filters,
                                .src = (const float*)run->inputs[0].data + image * s->src_n,
                                .src_c = s->src_c,
                                .src_h = s->src_h,
                                .src_w = s->src_w,
                                .weights = run->step->constants[0],
                                .dst = dst,
                                .ld = s->channels};
  conv.n = 1;
  conv.p = end - begin;
  conv.pad_h = s->first.pad_h - begin * s->first.stride_h;
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs, p->has_bias ? run->biases[0] : NULL,
                            &conv.epilogue);
  run->kernels->conv2d_few_f32(&conv, 0, conv.p);
}

// The same of a 1x1 convolution.
static void points(const chain_run* run, int64_t image, int64_t begin, int64_t end, float* dst) {
  const chain_state* s = run->state;
  const int64_t w = s->window.w, at_once = s->src_h == w * s->src_w ? end - begin : 1;
  const float* src = (const float*)run->inputs[0].data + image * s->src_n;
  for (int64_t h = begin; h < end; h += at_once)
    point(run, 0, src + h * s->src_h, s->src_w, dst + (h - begin) * w * s->channels, s->channels,
          at_once * w);
}

// Makes rows [begin, end) of the expanded image; returns the first of them in |buffer|. Rows that
// the slot holds are not computed again.
static const float* expand(const chain_run* run, chain_slot* slot, float* buffer, int64_t image,
                           int64_t begin, int64_t end) {
  const chain_state* s = run->state;
  const int64_t w = s->window.w, row = w * s->channels;
  if (slot->image != image || begin < slot->begin || begin >= slot->end)
    *slot = (chain_slot){image, begin, begin};
  if (end - slot->begin > s->expanded_rows) {
    memmove(buffer, buffer + (begin - slot->begin) * row,
            (size_t)((slot->end - begin) * row) * sizeof(float));
    slot->begin = begin;
  }
  const int64_t first = slot->end - slot->begin, count = end - slot->begin;
  if (slot->end < end) {
    (carnot_conv_is_point(&run->params->stages[0]) ? points : few)(run, image, slot->end, end,
                                                                   buffer + first * row);
    carnot_epilogue_plan_run(run->kernels, &run->params->stages[0].epilogue_plan, run->inputs,
                             buffer, s->channels, first * w, count * w, 0, s->channels);
    slot->end = end;
  }
  return buffer + (begin - slot->begin) * row;
}

// Output rows [row0, row1) of |image| from |src|, whose first row is row |begin| of |end|.
static void depthwise(const chain_run* run, const float* src, int64_t src_h, int64_t src_w,
                      int64_t begin, int64_t end, int64_t row0, int64_t row1, float* dst,
                      int64_t ld) {
  const chain_state* s = run->state;
  const int stage = run->params->depthwise;
  const carnot_conv_params* p = &run->params->stages[stage];
  carnot_depthwise_f32 conv = {CARNOT_WINDOW_FIELDS(&s->window),
                               .c = s->channels,
                               .src = src,
                               .src_h = src_h,
                               .src_w = src_w,
                               .weights = run->step->constants[stage],
                               .dst = dst,
                               .ld = ld};
  conv.n = 1;
  conv.h = end - begin;
  conv.p = row1 - row0;
  conv.pad_h = s->window.pad_h - row0 * s->window.stride_h + begin;
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs, p->has_bias ? run->biases[stage] : NULL,
                            &conv.epilogue);
  if (conv.epilogue.residual)
    conv.epilogue.residual +=
        (dst - (const float*)run->outputs[0].data) / ld * conv.epilogue.residual_ld;
  run->kernels->depthwise_f32(&conv, 0, conv.p);
}

static void chain_block(void* argument, int64_t part) {
  chain_run* run = argument;
  const chain_state* s = run->state;
  const carnot_conv_chain_params* p = run->params;
  const carnot_window_geometry* w = &s->window;
  const int64_t image = part / s->block_count, block = part % s->block_count;
  const int64_t row0 = first_row(s, block), row1 = first_row(s, block + 1);
  const int64_t begin = carnot_min_i64(w->h, carnot_max_i64(0, row0 * w->stride_h - w->pad_h));
  const int64_t end = carnot_max_i64(
      begin,
      carnot_min_i64(w->h, (row1 - 1) * w->stride_h - w->pad_h + (w->r - 1) * w->dilation_h + 1));
  const int64_t pixel0 = (image * w->p + row0) * w->q, pixel1 = pixel0 + (row1 - row0) * w->q;
  const bool expands = p->depthwise > 0, projects = p->depthwise + 1 < p->count;
  const int slot = take_slot(run);
  float* expanded = run->workspace + slot * s->slot_floats;
  float* result = (float*)run->outputs[0].data + pixel0 * s->ld;
  float* filtered = projects ? expanded + s->expanded_floats : result;
  const int64_t filtered_ld = projects ? s->channels : s->ld;
  if (expands) {
    const float* src = expand(run, &run->slots[slot], expanded, image, begin, end);
    depthwise(run, src, w->w * s->channels, s->channels, begin, end, row0, row1, filtered,
              filtered_ld);
  } else {
    const float* src = (const float*)run->inputs[0].data + image * s->src_n + begin * s->src_h;
    depthwise(run, src, s->src_h, s->src_w, begin, end, row0, row1, filtered, filtered_ld);
  }
  if (projects) {
    carnot_epilogue_plan_run(run->kernels, &p->stages[p->depthwise].epilogue_plan, run->inputs,
                             filtered, s->channels, 0, pixel1 - pixel0, 0, s->channels);
    point(run, p->depthwise + 1, filtered, s->channels, result, s->ld, pixel1 - pixel0);
  }
  const carnot_conv_params* last = &p->stages[p->count - 1];
  carnot_epilogue_plan_run(run->kernels, &last->epilogue_plan, run->inputs, run->outputs[0].data,
                           s->ld, pixel0, pixel1, 0, last->filters);
  return_slot(run, slot);
}

carnot_status* carnot_conv_chain_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  chain_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                   .step = step,
                   .params = step->params,
                   .state = state,
                   .inputs = inputs,
                   .outputs = outputs,
                   .workspace = workspace};
  const float* bias = step->constants[run.params->count];
  for (int i = 0; i < run.params->count;
       bias += carnot_conv_chain_bias_room(&run.params->stages[i++]))
    run.biases[i] = bias;
  for (int i = 0; i < kMaxSlots; i++) run.slots[i].image = -1;
  carnot_executor_parallel(executor, run.state->images * run.state->block_count, chain_block, &run);
  return NULL;
}
