// How a chain of convolutions is cut into blocks of output rows, and what a block keeps in cache.
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv_chain.h"

enum {
  kSlotBytes = 384 * 1024,  // of both buffers of a slot: half of a core's L2 or less
  kBlocks = 8,              // of an image, or a multiple; one for each of more than four threads
  kTileBlocks = 4           // of tile instructions, which a few pixels leave half unused
};

static int64_t element_bytes(bool is_bf16) { return is_bf16 ? 2 : 4; }

// The operand of |channels| that lies between two convolutions, of the rows and columns of |like|.
static carnot_operand inner_operand(const carnot_operand* like, int64_t channels) {
  carnot_operand t = *like;
  t.dims[1] = channels;
  t.strides[1] = 1;
  t.strides[3] = channels;
  t.strides[2] = channels * t.dims[3];
  t.strides[0] = t.strides[2] * t.dims[2];
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

static void hold(carnot_conv_chain_buffer* b, int64_t rows) {
  b->rows = rows;
  b->bytes = (int64_t)carnot_align_up((size_t)(rows * b->row_bytes), 64);
}

static int64_t least_blocks(int threads, const carnot_conv_chain_params* p) {
  bool by_tiles = false;
  for (int i = 0; i < p->count; i++) {
    const carnot_weights_type type = (carnot_weights_type)p->stages[i].weights;
    by_tiles |= carnot_packed_weights_split(type) || type == CARNOT_WEIGHTS_BF16_TILES;
  }
  const int64_t few = by_tiles ? kTileBlocks : kBlocks;
  return threads > CARNOT_FEW_THREADS ? carnot_max_i64(few, threads) : few;
}

// Blocks are as many as spread evenly over threads, and more where a block would not fit.
static void cut_rows(int threads, const carnot_conv_chain_params* p, carnot_conv_chain_state* s) {
  const carnot_window_geometry* w = &s->window;
  carnot_conv_chain_buffer *expanded = &s->expanded, *filtered = &s->filtered;
  const int next = p->depthwise + 1;
  if (p->depthwise > 0) expanded->row_bytes = w->w * s->channels * element_bytes(expanded->is_bf16);
  if (next < p->count)
    filtered->row_bytes = w->q *
                          carnot_conv_stage_src(&p->stages[next], filtered->is_bf16, NULL).ld *
                          element_bytes(filtered->is_bf16);
  const int64_t blocks = least_blocks(threads, p);
  int64_t rows;
  for (s->block_count = blocks;; s->block_count += blocks) {
    rows = carnot_ceildiv(w->p, s->block_count);
    if (rows <= 1 ||
        rows_under(w, rows) * expanded->row_bytes + rows * filtered->row_bytes <= kSlotBytes)
      break;
  }
  s->block_count = carnot_min_i64(s->block_count, w->p);
  // What is left holds further rows, so that those of the next block rarely move.
  const int64_t left = kSlotBytes - rows * filtered->row_bytes;
  const int64_t fit = expanded->row_bytes ? left / expanded->row_bytes : 0;
  hold(expanded, carnot_max_i64(rows_under(w, rows), carnot_min_i64(w->h, fit)));
  hold(filtered, rows);
}

// Scratch of the largest convolution by tiles.
static carnot_status* find_scratch(const carnot_conv_chain_params* p, bool src_is_bf16,
                                   carnot_conv_chain_state* s) {
  for (int i = 0; i < p->count; i++) {
    if (p->stages[i].weights != CARNOT_WEIGHTS_BF16_TILES) continue;
    const bool last = i > 0;
    const carnot_pixels src = last ? carnot_conv_stage_src(&p->stages[i], s->filtered.is_bf16, NULL)
                                   : (carnot_pixels){NULL, src_is_bf16, s->src_w, false};
    carnot_conv2d_bf16_tiles call = carnot_conv_stage_tiles(
        &p->stages[i], last ? s->filtered.rows * s->window.q : s->expanded.rows * s->window.w, src,
        last ? s->ld : s->channels);
    if (!carnot_conv_is_point(&p->stages[i])) {
      call = carnot_conv_tiles_call(&p->stages[i], &s->first);
      call.conv.n = 1, call.conv.p = s->expanded.rows;
      call.src_is_bf16 = src_is_bf16;
    }
    CARNOT_CHECK(carnot_conv2d_bf16_tiles_fits(&call), INVALID_MODEL,
                 "pixels of %lld channels do not fit in L2", (long long)p->stages[i].channels);
    s->scratch_bytes = carnot_max_i64(
        s->scratch_bytes,
        (int64_t)carnot_align_up((size_t)carnot_conv2d_bf16_tiles_scratch(&call), 64));
  }
  return NULL;
}

// A convolution of few channels by multiply-adds, which reads channels wherever they lie.
static bool is_few_f32(const carnot_conv_params* p) {
  return !carnot_conv_is_point(p) && p->weights != CARNOT_WEIGHTS_BF16_TILES;
}

static carnot_status* find_geometry(const carnot_step_view* step, const carnot_operand* x,
                                    const carnot_operand* y, carnot_conv_chain_state* s) {
  const carnot_conv_chain_params* p = step->params;
  carnot_operand pixels = *x;
  s->src_c = x->strides[1];
  if (p->depthwise > 0 && is_few_f32(&p->stages[0])) pixels.strides[1] = 1;
  if (p->depthwise > 0 && p->stages[0].weights == CARNOT_WEIGHTS_BF16_TILES)
    CARNOT_TRY(carnot_conv_tiles_planes(&p->stages[0], &pixels, &s->src_c));
  const bool projects = p->depthwise + 1 < p->count;
  const carnot_operand before = p->depthwise ? first_result(&p->stages[0], x) : *x;
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
  return NULL;
}

carnot_status* carnot_conv_chain_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* memory,
                                           size_t* out_workspace_bytes) {
  const carnot_conv_chain_params* p = step->params;
  carnot_conv_chain_state* s = memory;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && carnot_cpu_is_f32_value(step, x) &&
                   carnot_cpu_is_f32_value(step, y),
               INVALID_MODEL, "operands of rank %d and %d", x->rank, y->rank);
  *s = (carnot_conv_chain_state){0};
  CARNOT_TRY(find_geometry(step, x, y, s));
  CARNOT_CHECK(
      p->depthwise == 0 || !is_few_f32(&p->stages[0]) || x->format.dtype == CARNOT_DTYPE_F32,
      INVALID_MODEL, "an input of %s before few channels", carnot_dtype_name(x->format.dtype));
  // A depthwise convolution that ends the chain takes what its own tactic takes.
  if (p->depthwise + 1 == p->count)
    CARNOT_TRY(carnot_conv_check_bf16(&p->stages[p->depthwise].epilogue_plan, /*takes_gate=*/true,
                                      inputs, outputs));
  for (int i = 0; i < p->count; i++)
    CARNOT_TRY(carnot_epilogue_plan_check(step, &p->stages[i].epilogue_plan, inputs, y,
                                          p->stages[i].filters));
  const bool is_bf16 = step->tactic->precision == CARNOT_DTYPE_BF16;
  const carnot_epilogue_plan* first = &p->stages[0].epilogue_plan;
  s->expanded.is_bf16 = is_bf16 && !first->program.instruction_count;
  s->filtered.is_bf16 = is_bf16 && carnot_conv_rounds_last(&p->stages[p->depthwise].epilogue_plan,
                                                           /*takes_gate=*/true);
  cut_rows(step->threads, p, s);
  CARNOT_TRY(find_scratch(p, x->format.dtype == CARNOT_DTYPE_BF16, s));
  s->slot_bytes = s->expanded.bytes + s->filtered.bytes + s->scratch_bytes;
  s->slot_count = carnot_min_i64(CARNOT_CONV_MAX_SLOTS, s->images * s->block_count);
  *out_workspace_bytes = (size_t)(s->slot_count * s->slot_bytes);
  return NULL;
}
