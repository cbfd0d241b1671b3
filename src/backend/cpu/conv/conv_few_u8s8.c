// Quantized convolution of few channels, the first layer of a network: the input is copied to a
// padded image with channels innermost, where the taps of one filter row lie side by side and count
// as one.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/int8_conv.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

enum { kMostChannels = 4, kMostRows = 64 };
static const carnot_int8_conv_limits kLimits = {.rank = 2, .taps = INT32_MAX};

static int64_t rows_of(const carnot_int8_conv_params* p) {
  return p->window.rank == 2 ? p->window.kernel[0] : 1;
}

static const char* few_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_int8_conv_params p;
  const char* why = carnot_int8_conv_read(problem, &kLimits, &p, reason, size);
  if (why) return why;
  if (p.channels > kMostChannels || p.group != 1)
    return carnot_because(reason, size, "%lld channels in %lld groups, takes up to %d in one",
                          (long long)p.channels, (long long)p.group, kMostChannels);
  if (p.window.dilations[p.window.rank - 1] != 1 || rows_of(&p) > kMostRows)
    return "the taps of a row are apart, or there are too many rows";
  problem->inputs[p.region.x].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_int8_weights_shape shape_of(const carnot_int8_conv_params* p) {
  const int64_t columns = p->window.kernel[p->window.rank - 1];
  return (carnot_int8_weights_shape){1, rows_of(p), carnot_int8_image_depth(columns, p->channels),
                                     p->filters};
}
static size_t packed_bytes(const carnot_tactic* tactic, const carnot_int8_conv_params* p) {
  const carnot_int8_weights_shape shape = shape_of(p);
  return carnot_int8_group_bytes(tactic, &shape);
}

static carnot_status* few_prepare(const carnot_problem* problem, carnot_prepared* out) {
  int8_t* weights;
  void* turned;
  CARNOT_TRY(carnot_int8_conv_prepare(problem, &kLimits, carnot_int8_shift(problem->tactic, true),
                                      out, &weights));
  const carnot_int8_conv_params* p = out->params;
  const carnot_int8_weights_shape shape = shape_of(p);
  carnot_status* status =
      carnot_calloc((size_t)(shape.n * shape.taps * shape.c), 1, "weights before packing", &turned);
  if (!status) {
    carnot_int8_image_weights(p->filters, p->channels, rows_of(p),
                              carnot_int8_conv_taps(p) / rows_of(p), weights, turned);
    status = carnot_int8_pack(problem->tactic, &shape, turned, shape.taps * shape.c, shape.c, 1,
                              CARNOT_INT8_WEIGHTS, out);
    free(turned);
  }
  free(weights);
  return status;
}

static carnot_status* few_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_int8_conv_validate(step, &kLimits, packed_bytes));
  const carnot_int8_conv_params* p = step->params;
  CARNOT_CHECK(p->channels <= kMostChannels && p->group == 1 && rows_of(p) <= kMostRows &&
                   p->window.dilations[p->window.rank - 1] == 1,
               INVALID_MODEL, "%lld channels in %lld groups", (long long)p->channels,
               (long long)p->group);
  return NULL;
}

typedef struct few_state {
  carnot_window_geometry geometry;  // of the input with channels innermost
  carnot_work_partition partition;
  int64_t src_n, src_c, src_h, src_w;  // strides of the input as it is
  carnot_int8_image image;
  size_t image_bytes, part_bytes;  // of workspace: padded images, then each part's
} few_state;

enum { kSlack = 64 };  // the last row is read beyond its end by less than a step

// Over the padded images, whose pixels begin a pixel apart and hold a row of the filter each.
static carnot_conv2d_u8s8 call_of(const carnot_int8_conv_params* p, const few_state* s) {
  carnot_conv2d_u8s8 call = carnot_int8_image_call(&s->geometry, &s->image);
  call.src_signed = p->region.x_signed;
  return call;
}

static carnot_status* few_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* memory,
                                    size_t* out_workspace_bytes) {
  few_state* s = memory;
  const carnot_int8_conv_params* p = step->params;
  carnot_operand x = inputs[p->region.x];
  CARNOT_CHECK(x.rank == p->window.rank + 2, INVALID_MODEL, "an input of rank %d", x.rank);
  s->src_n = x.strides[0], s->src_c = x.strides[1];
  s->src_h = x.rank == 4 ? x.strides[2] : 0, s->src_w = x.strides[x.rank - 1];
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, x.rank, x.dims, x.strides);
  carnot_window_geometry* g = &s->geometry;
  CARNOT_TRY(carnot_window_geometry_of(&p->window, &x, &outputs[0], g));
  CARNOT_CHECK(g->c == p->channels && g->k == p->filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)g->c, (long long)g->k, (long long)p->channels, (long long)p->filters);
  s->image = carnot_int8_image_of(g);
  const carnot_conv2d_u8s8 call = call_of(p, s);
  s->partition = carnot_int8_conv_partition(step, &call);
  if (carnot_int8_uses_tiles(step->tactic)) CARNOT_TRY(carnot_int8_tiles_check(&call));
  s->image_bytes =
      carnot_align_up((size_t)(g->n * s->image.rows * s->image.row_bytes + kSlack), 64);
  s->part_bytes = carnot_int8_conv_workspace(step->tactic, &call, /*readable=*/true);
  *out_workspace_bytes =
      s->image_bytes + s->part_bytes * (size_t)carnot_work_partition_count(&s->partition);
  return carnot_int8_region_configure(&p->region, outputs[0].rank - 1, inputs, &outputs[0]);
}

typedef struct few_run {
  const carnot_step_view* step;
  const carnot_int8_conv_params* p;
  const few_state* s;
  const uint8_t* x;
  uint8_t* padded;
  carnot_conv2d_u8s8 conv;
} few_run;

// Channels side by side, from rows |stride| bytes apart.
static void interleave_row(int64_t channels, int64_t count, const uint8_t* in, int64_t stride,
                           int64_t step, uint8_t* out) {
  if (channels == 3 && step == 1) {
    const uint8_t *a = in, *b = in + stride, *c = b + stride;
    for (int64_t w = 0; w < count; w++) {
      out[3 * w] = a[w];
      out[3 * w + 1] = b[w];
      out[3 * w + 2] = c[w];
    }
    return;
  }
  for (int64_t c = 0; c < channels; c++)
    for (int64_t w = 0; w < count; w++) out[w * channels + c] = in[c * stride + w * step];
}

// One row of a padded image.
static void copy_row(void* argument, int64_t part) {
  const few_run* run = argument;
  const few_state* s = run->s;
  const carnot_window_geometry* g = &s->geometry;
  const int zero = run->p->region.x_zero & 255;
  const int64_t image = part / s->image.rows, h = part % s->image.rows - g->pad_h;
  uint8_t* out = run->padded + part * s->image.row_bytes;
  const int64_t first = carnot_max_i64(0, -g->pad_w),
                last = carnot_min_i64(g->w, s->image.columns - g->pad_w);
  if (h < 0 || h >= g->h || first >= last) {
    memset(out, zero, (size_t)s->image.row_bytes);
    return;
  }
  const int64_t begin = (first + g->pad_w) * g->c, end = (last + g->pad_w) * g->c;
  memset(out, zero, (size_t)begin);
  interleave_row(g->c, last - first, run->x + image * s->src_n + h * s->src_h + first * s->src_w,
                 s->src_c, s->src_w, out + begin);
  memset(out + end, zero, (size_t)(s->image.row_bytes - end));
}

static void few_part(void* argument, int64_t part) {
  const few_run* run = argument;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part, &m0, &m1, &n0, &n1);
  uint8_t* workspace = run->padded + run->s->image_bytes +
                       (size_t)carnot_executor_scratch(part) * run->s->part_bytes;
  carnot_int8_conv_call(run->step, &run->conv, /*readable=*/true, workspace, m0, m1, n0, n1);
}

static carnot_status* few_run_all(const carnot_step_view* step, void* memory,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  const few_state* s = memory;
  const carnot_int8_conv_params* p = step->params;
  const carnot_window_geometry* g = &s->geometry;
  few_run run = {.step = step,
                 .p = p,
                 .s = s,
                 .x = inputs[p->region.x].data,
                 .padded = workspace,
                 .conv = call_of(p, s)};
  run.conv.src = run.padded;
  run.conv.weights = step->constants[CARNOT_INT8_WEIGHTS];
  run.conv.border = step->constants[CARNOT_INT8_BORDER];
  run.conv.dst = outputs[0].data;
  run.conv.epilogue = carnot_int8_region_epilogue(&p->region, outputs[0].rank - 1, step, inputs);
  memset(run.padded + g->n * s->image.rows * s->image.row_bytes, 0, kSlack);
  carnot_executor_parallel(executor, g->n * s->image.rows, copy_row, &run);
  carnot_executor_parallel(executor, carnot_work_partition_count(&s->partition), few_part, &run);
  return NULL;
}

#define FEW_TACTIC                                                                                 \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .reject = few_reject, .prepare = few_prepare, \
  .validate = few_validate, .uses_input = carnot_int8_conv_uses_input, .configure = few_configure, \
  .run = few_run_all, .work = carnot_int8_region_work
CARNOT_CPU_TACTICS(conv_few_u8s8, FEW_TACTIC);
CARNOT_CPU_TACTIC(conv_few_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, FEW_TACTIC);
