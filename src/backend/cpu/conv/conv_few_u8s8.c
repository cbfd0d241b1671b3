// Quantized convolution of few channels, the first layer of a network: the input is copied to a
// padded image with channels innermost, where the taps of one filter row lie side by side and count
// as one.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/int8_conv.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

enum { kShiftOfSigned = 128, kMostChannels = 4, kMostRows = 64 };

// Rows of the filter, and the bytes of one, rounded up to whole steps of the kernel.
static int64_t rows_of(const carnot_int8_conv_params* p) {
  return p->window.rank == 2 ? p->window.kernel[0] : 1;
}
static int64_t depth_of(const carnot_int8_conv_params* p) {
  return carnot_ceildiv(p->window.kernel[p->window.rank - 1] * p->channels, 4) * 4;
}

static const char* few_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_int8_conv_params p;
  const char* why = carnot_int8_conv_read(problem, INT32_MAX, &p, reason, size);
  if (why) return why;
  if (p.channels > kMostChannels || p.group != 1)
    return carnot_because(reason, size, "%lld channels in %lld groups, takes up to %d in one",
                          (long long)p.channels, (long long)p.group, kMostChannels);
  if (p.window.dilations[p.window.rank - 1] != 1 || rows_of(&p) > kMostRows)
    return "the taps of a row are apart, or there are too many rows";
  problem->inputs[p.region.x].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static size_t packed_bytes(const carnot_int8_conv_params* p) {
  return (size_t)carnot_packed_k4n16_bytes(rows_of(p), depth_of(p), p->filters);
}

// [K,C,R,S] -> [K,R,S,C], rows of the filter padded with zeros.
static void turn(const carnot_int8_conv_params* p, const int8_t* weights, int8_t* turned) {
  const int64_t rows = rows_of(p), columns = carnot_int8_conv_taps(p) / rows, depth = depth_of(p);
  for (int64_t k = 0; k < p->filters; k++)
    for (int64_t c = 0; c < p->channels; c++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++)
          turned[(k * rows + r) * depth + s * p->channels + c] =
              weights[((k * p->channels + c) * rows + r) * columns + s];
}

static carnot_status* pack(const carnot_int8_conv_params* p, const int8_t* weights,
                           carnot_prepared* out) {
  void *packed, *turned;
  const int64_t rows = rows_of(p), depth = depth_of(p);
  CARNOT_TRY(carnot_arena_try(out->arena, packed_bytes(p) + 64, 1, "packed weights", &packed));
  CARNOT_TRY(
      carnot_calloc((size_t)(p->filters * rows * depth), 1, "weights before packing", &turned));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  turn(p, weights, turned);
  carnot_pack_k4n16_s8(rows, depth, p->filters, turned, rows * depth, depth, 1, packed);
  free(turned);
  out->constants[CARNOT_INT8_WEIGHTS].packing = "k4n16 s8";
  out->constants[CARNOT_INT8_WEIGHTS].data = packed;
  out->constants[CARNOT_INT8_WEIGHTS].bytes = packed_bytes(p);
  return NULL;
}

static carnot_status* few_prepare(const carnot_problem* problem, carnot_prepared* out) {
  int8_t* weights;
  CARNOT_TRY(carnot_int8_conv_prepare(problem, INT32_MAX, kShiftOfSigned, out, &weights));
  carnot_status* status = pack(out->params, weights, out);
  free(weights);
  return status;
}

static carnot_status* few_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_int8_conv_validate(step, INT32_MAX, packed_bytes));
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
  int64_t rows, columns, row_bytes;    // of a padded image
} few_state;

enum { kSlack = 64 };  // the last row is read beyond its end by less than a step

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
  s->rows = carnot_max_i64((g->p - 1) * g->stride_h + (g->r - 1) * g->dilation_h + 1,
                           g->h + carnot_max_i64(0, g->pad_h));
  s->columns = carnot_max_i64((g->q - 1) * g->stride_w + g->s, g->w + carnot_max_i64(0, g->pad_w));
  s->row_bytes = s->columns * g->c;
  s->partition =
      carnot_int8_partition(step, g->n * g->p * g->q, p->filters, rows_of(p) * depth_of(p));
  *out_workspace_bytes = (size_t)(g->n * s->rows * s->row_bytes + kSlack);
  return carnot_int8_region_configure(&p->region, outputs[0].rank - 1, inputs, &outputs[0]);
}

typedef struct few_run {
  const carnot_cpu_kernels* kernels;
  const carnot_int8_conv_params* p;
  const few_state* s;
  const uint8_t* x;
  uint8_t* padded;
  carnot_conv2d_u8s8 conv;
} few_run;

// One row of a padded image.
static void copy_row(void* argument, int64_t part) {
  const few_run* run = argument;
  const few_state* s = run->s;
  const carnot_window_geometry* g = &s->geometry;
  const int64_t image = part / s->rows, h = part % s->rows - g->pad_h;
  uint8_t* out = run->padded + part * s->row_bytes;
  memset(out, run->p->region.x_zero & 255, (size_t)s->row_bytes);
  if (h < 0 || h >= g->h) return;
  const uint8_t* in = run->x + image * s->src_n + h * s->src_h;
  const int64_t first = carnot_max_i64(0, -g->pad_w),
                last = carnot_min_i64(g->w, s->columns - g->pad_w);
  for (int64_t c = 0; c < g->c; c++) {
    uint8_t* y = out + (first + g->pad_w) * g->c + c;
    for (int64_t w = first; w < last; w++, y += g->c) *y = in[c * s->src_c + w * s->src_w];
  }
}

static void few_part(void* argument, int64_t part) {
  const few_run* run = argument;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part, &m0, &m1, &n0, &n1);
  run->kernels->conv2d_u8s8(&run->conv, m0, m1, n0, n1);
}

static carnot_status* few_run_all(const carnot_step_view* step, void* memory,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  const few_state* s = memory;
  const carnot_int8_conv_params* p = step->params;
  const carnot_window_geometry* g = &s->geometry;
  few_run run = {.kernels = carnot_int8_region_kernels(step),
                 .p = p,
                 .s = s,
                 .x = inputs[p->region.x].data,
                 .padded = workspace};
  run.conv = (carnot_conv2d_u8s8){
      .n = g->n,
      .h = s->rows,
      .w = s->columns,
      .c = depth_of(p),
      .p = g->p,
      .q = g->q,
      .k = p->filters,
      .r = g->r,
      .s = 1,
      .stride_h = g->stride_h,
      .stride_w = g->stride_w,
      .dilation_h = g->dilation_h,
      .dilation_w = 1,
      .src = run.padded,
      .src_n = s->rows * s->row_bytes,
      .src_h = s->row_bytes,
      .src_w = g->c,
      .src_signed = p->region.x_signed,
      .weights = step->constants[CARNOT_INT8_WEIGHTS],
      .border = step->constants[CARNOT_INT8_BORDER],
      .dst = outputs[0].data,
      .ld = g->ld,
      .epilogue = carnot_int8_region_epilogue(&p->region, outputs[0].rank - 1, step, inputs)};
  memset(run.padded + g->n * s->rows * s->row_bytes, 0, kSlack);
  carnot_executor_parallel(executor, g->n * s->rows, copy_row, &run);
  carnot_executor_parallel(executor, carnot_work_partition_count(&s->partition), few_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(conv_few_u8s8, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                   .reject = few_reject, .prepare = few_prepare, .validate = few_validate,
                   .uses_input = carnot_int8_conv_uses_input, .configure = few_configure,
                   .run = few_run_all, .work = carnot_int8_region_work);
