// Runs chains of convolutions by blocks of output rows: the expanded rows under a block, the
// depthwise convolution, the projection.
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv_chain.h"

// A buffer of expanded rows: [begin, end) of |image|, from the buffer's first row on. One block at
// a time has a slot.
typedef struct chain_slot {
  int64_t image, begin, end;
} chain_slot;

typedef struct chain_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_conv_chain_params* params;
  const carnot_conv_chain_state* state;
  const carnot_operand *inputs, *outputs;
  char* workspace;
  const float* biases[CARNOT_CONV_CHAIN_MAX_STAGES];
  _Atomic uint32_t taken;  // bit set of slots
  chain_slot slots[CARNOT_CONV_MAX_SLOTS];
} chain_run;

// The epilogue of a stage; |pixel|: the number of its first pixel in the result of the step, for
// operands of the last stage.
static carnot_epilogue_f32 epilogue_of(const chain_run* run, int stage, int64_t pixel,
                                       bool* out_residual_is_bf16) {
  return carnot_conv_stage_epilogue(&run->params->stages[stage], run->biases[stage], run->inputs,
                                    pixel, out_residual_is_bf16);
}

// A 1x1 convolution with its epilogue over |m| pixels.
static void point(const chain_run* run, int stage, carnot_pixels a, carnot_pixels c, int64_t m,
                  int64_t pixel, void* scratch) {
  carnot_conv_stage_point p = {.kernels = run->kernels,
                               .params = &run->params->stages[stage],
                               .weights = run->step->constants[stage],
                               .src = a,
                               .dst = c,
                               .scratch = scratch};
  p.epilogue = epilogue_of(run, stage, pixel, &p.residual_is_bf16);
  carnot_conv_stage_run_point(&p, m, 0, p.params->filters);
}

// Rows [begin, end) of what a first 1x1 convolution makes of |image|.
static void expand_points(const chain_run* run, int64_t image, int64_t begin, int64_t end,
                          carnot_pixels dst, void* scratch) {
  const carnot_conv_chain_state* s = run->state;
  const int64_t w = s->window.w, at_once = s->src_h == w * s->src_w ? end - begin : 1;
  for (int64_t h = begin; h < end; h += at_once) {
    const carnot_pixels src =
        carnot_pixels_of(&run->inputs[0], image * s->src_n + h * s->src_h, s->src_w);
    point(run, 0, src, dst, at_once * w, 0, scratch);
    dst.data = carnot_pixels_element(dst.data, dst.is_bf16, at_once * w * dst.ld);
  }
}

// The same of a convolution of few channels by BF16 tiles.
static void expand_tiles(const chain_run* run, int64_t image, int64_t begin, int64_t end,
                         carnot_pixels dst, void* scratch) {
  const carnot_conv_chain_state* s = run->state;
  const carnot_conv_params* p = &run->params->stages[0];
  const carnot_pixels src = carnot_pixels_of(&run->inputs[0], image * s->src_n, s->src_w);
  carnot_conv2d_bf16_tiles call = carnot_conv_tiles_call(p, &s->first);
  call.src_is_bf16 = src.is_bf16, call.dst_is_bf16 = dst.is_bf16;
  call.src_c = s->src_c;
  call.scratch = scratch;
  call.conv.n = 1;
  call.conv.p = end - begin;
  call.conv.pad_h = s->first.pad_h - begin * s->first.stride_h;
  call.conv.src = src.data, call.conv.dst = dst.data, call.conv.ld = dst.ld;
  call.conv.weights = run->step->constants[0];
  call.conv.epilogue = epilogue_of(run, 0, 0, &call.residual_is_bf16);
  run->kernels->conv2d_bf16_tiles(&call, 0, call.conv.p * call.conv.q, 0, call.conv.k);
}

// The same of a convolution of few channels by multiply-adds.
static void expand_few(const chain_run* run, int64_t image, int64_t begin, int64_t end,
                       carnot_pixels dst) {
  const carnot_conv_chain_state* s = run->state;
  const carnot_conv_params* p = &run->params->stages[0];
  bool residual_is_bf16;
  carnot_conv2d_few_f32 conv = {CARNOT_WINDOW_FIELDS(&s->first),
                                .c = p->channels,
                                .k = p->filters,
                                .src = (const float*)run->inputs[0].data + image * s->src_n,
                                .src_c = s->src_c,
                                .src_h = s->src_h,
                                .src_w = s->src_w,
                                .weights = run->step->constants[0],
                                .dst = dst.data,
                                .ld = dst.ld,
                                .epilogue = epilogue_of(run, 0, 0, &residual_is_bf16),
                                .dst_is_bf16 = dst.is_bf16};
  conv.n = 1;
  conv.p = end - begin;
  conv.pad_h = s->first.pad_h - begin * s->first.stride_h;
  run->kernels->conv2d_few_f32(&conv, 0, conv.p);
}

// Makes rows [begin, end) of the expanded image; returns the first of them in |buffer|. Rows that
// the slot holds are not computed again.
static void* expand(const chain_run* run, chain_slot* slot, char* buffer, int64_t image,
                    int64_t begin, int64_t end, void* scratch) {
  const carnot_conv_chain_state* s = run->state;
  const carnot_conv_chain_buffer* b = &s->expanded;
  const int64_t w = s->window.w;
  if (slot->image != image || begin < slot->begin || begin >= slot->end)
    *slot = (chain_slot){image, begin, begin};
  if (end - slot->begin > b->rows) {
    memmove(buffer, buffer + (begin - slot->begin) * b->row_bytes,
            (size_t)((slot->end - begin) * b->row_bytes));
    slot->begin = begin;
  }
  const int64_t first = slot->end - slot->begin, count = end - slot->begin;
  if (slot->end < end) {
    const carnot_pixels dst = {buffer + first * b->row_bytes, b->is_bf16, s->channels, false};
    if (carnot_conv_is_point(&run->params->stages[0]))
      expand_points(run, image, slot->end, end, dst, scratch);
    else if (run->params->stages[0].weights == CARNOT_WEIGHTS_BF16_TILES)
      expand_tiles(run, image, slot->end, end, dst, scratch);
    else
      expand_few(run, image, slot->end, end, dst);
    carnot_epilogue_plan_run(run->kernels, &run->params->stages[0].epilogue_plan, run->inputs,
                             buffer, s->channels, first * w, count * w, 0, s->channels);
    slot->end = end;
  }
  return buffer + (begin - slot->begin) * b->row_bytes;
}

// Input rows [begin, end) under output rows [row0, row1) of an image.
typedef struct row_range {
  int64_t row0, row1, begin, end;
} row_range;

static row_range rows_of(const carnot_conv_chain_state* s, int64_t block) {
  const carnot_window_geometry* w = &s->window;
  row_range r = {.row0 = carnot_conv_chain_row(s, block),
                 .row1 = carnot_conv_chain_row(s, block + 1)};
  const int64_t last = (r.row1 - 1) * w->stride_h - w->pad_h + (w->r - 1) * w->dilation_h;
  r.begin = carnot_min_i64(w->h, carnot_max_i64(0, r.row0 * w->stride_h - w->pad_h));
  r.end = carnot_max_i64(r.begin, carnot_min_i64(w->h, last + 1));
  return r;
}

// The depthwise convolution; |src| is input row r->begin, with rows |src_h| apart.
static void filter(const chain_run* run, const row_range* r, carnot_pixels src, int64_t src_h,
                   carnot_pixels dst, int64_t pixel) {
  const carnot_conv_chain_state* s = run->state;
  const int stage = run->params->depthwise;
  bool residual_is_bf16;
  carnot_depthwise_f32 conv = {CARNOT_WINDOW_FIELDS(&s->window),
                               .c = s->channels,
                               .src = src.data,
                               .src_h = src_h,
                               .src_w = src.ld,
                               .weights = run->step->constants[stage],
                               .dst = dst.data,
                               .ld = dst.ld,
                               .epilogue = epilogue_of(run, stage, pixel, &residual_is_bf16),
                               .src_is_bf16 = src.is_bf16,
                               .dst_is_bf16 = dst.is_bf16};
  conv.n = 1;
  conv.h = r->end - r->begin;
  conv.p = r->row1 - r->row0;
  conv.pad_h = s->window.pad_h - r->row0 * s->window.stride_h + r->begin;
  run->kernels->depthwise_f32(&conv, 0, conv.p);
}

static void chain_block(void* argument, int64_t part) {
  chain_run* run = argument;
  const carnot_conv_chain_state* s = run->state;
  const carnot_conv_chain_params* p = run->params;
  const carnot_window_geometry* w = &s->window;
  const int64_t image = part / s->block_count;
  const row_range r = rows_of(s, part % s->block_count);
  const int64_t pixel0 = (image * w->p + r.row0) * w->q, m = (r.row1 - r.row0) * w->q;
  const int slot = carnot_conv_take_slot(&run->taken, s->slot_count);
  char* expanded = run->workspace + slot * s->slot_bytes;
  char* scratch = expanded + s->expanded.bytes + s->filtered.bytes;
  const carnot_pixels result = carnot_pixels_of(&run->outputs[0], pixel0 * s->ld, s->ld);
  const bool projects = p->depthwise + 1 < p->count;
  const carnot_pixels filtered =
      projects ? carnot_conv_stage_src(&p->stages[p->depthwise + 1], s->filtered.is_bf16,
                                       expanded + s->expanded.bytes)
               : result;
  if (p->depthwise > 0) {
    void* rows = expand(run, &run->slots[slot], expanded, image, r.begin, r.end, scratch);
    filter(run, &r, (carnot_pixels){rows, s->expanded.is_bf16, s->channels, false},
           w->w * s->channels, filtered, pixel0);
  } else {
    const carnot_pixels src =
        carnot_pixels_of(&run->inputs[0], image * s->src_n + r.begin * s->src_h, s->src_w);
    filter(run, &r, src, s->src_h, filtered, pixel0);
  }
  if (projects) {
    carnot_epilogue_plan_run(run->kernels, &p->stages[p->depthwise].epilogue_plan, run->inputs,
                             filtered.data, filtered.ld, 0, m, 0, s->channels);
    carnot_conv_stage_pad(filtered, s->channels, m);
    point(run, p->depthwise + 1, filtered, result, m, pixel0, scratch);
  }
  const carnot_conv_params* last = &p->stages[p->count - 1];
  carnot_epilogue_plan_run(run->kernels, &last->epilogue_plan, run->inputs, run->outputs[0].data,
                           s->ld, pixel0, pixel0 + m, 0, last->filters);
  carnot_conv_return_slot(&run->taken, slot);
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
  carnot_conv_stages_biases(step, run.params->stages, run.params->count, run.biases);
  for (int i = 0; i < CARNOT_CONV_MAX_SLOTS; i++) run.slots[i].image = -1;
  carnot_executor_parallel(executor, run.state->images * run.state->block_count, chain_block, &run);
  return NULL;
}
