// Convolutions by constant integer weights: the work of a run.
#include "backend/cpu/conv/integer_conv.h"
#include "kernel/cpu/conv/depthwise_u8s8.h"

enum { kSlack = 64 };  // what is read behind the padded images

static int64_t depthwise_rows_per_part(const carnot_window_geometry* g) {
  return carnot_rows_per_part(g->n * g->p, g->q * g->c * g->r * g->s);
}

carnot_status* carnot_integer_conv_configure(const carnot_integer_conv* conv,
                                             const carnot_step_view* step, const carnot_operand* x,
                                             const carnot_operand* y,
                                             carnot_integer_conv_state* s) {
  const carnot_integer_conv flat = carnot_integer_conv_flat(conv);
  s->planes = carnot_int8_planes_of(&conv->window);
  CARNOT_TRY(carnot_window_geometry_of(&conv->window, x, y, &s->given));
  CARNOT_CHECK(s->given.c == conv->channels && s->given.k == conv->filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)s->given.c, (long long)s->given.k, (long long)conv->channels,
               (long long)conv->filters);
  CARNOT_TRY(carnot_int8_flat_geometry(s->planes, &s->given, &s->geometry));
  const carnot_window_geometry* g = &s->geometry;
  const carnot_conv2d_u8s8 call = carnot_integer_conv_call(&flat, g);
  s->partition = carnot_int8_conv_partition(step, &call);
  if (carnot_int8_uses_tiles(step->tactic)) CARNOT_TRY(carnot_int8_tiles_check(&call));
  const carnot_integer_conv_form form = carnot_integer_conv_form_of(&flat);
  const bool is_image = form == CARNOT_INTEGER_CONV_IMAGE;
  s->parts = form == CARNOT_INTEGER_CONV_DEPTHWISE
                 ? carnot_ceildiv(g->n * g->p, depthwise_rows_per_part(g))
                 : carnot_work_partition_count(&s->partition) * conv->group;
  s->border = (size_t)conv->filters * sizeof(int32_t);
  s->stacked = s->image = carnot_align_up(s->border + (size_t)flat.channels + 64, 64);
  if (carnot_int8_is_copied(s->planes))
    s->image += carnot_align_up((size_t)(g->n * g->src_n) + kSlack, 64);
  s->tiles = s->image;
  if (is_image) s->tiles += carnot_align_up((size_t)(call.n * call.src_n) + kSlack, 64);
  s->part_bytes = carnot_int8_conv_workspace(step->tactic, &call, /*readable=*/is_image);
  s->bytes = s->tiles + s->part_bytes * (size_t)s->parts;
  return NULL;
}

typedef struct conv_run {
  const carnot_step_view* step;
  bool is_image;
  size_t group_bytes;  // of packed weights
  const carnot_integer_conv_state* s;
  char* workspace;          // of the parts
  carnot_conv2d_u8s8 conv;  // of the first group
} conv_run;

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const int64_t parts = carnot_work_partition_count(&run->s->partition), group = part / parts;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part % parts, &m0, &m1, &n0, &n1);
  carnot_conv2d_u8s8 conv = run->conv;
  const int64_t first = group * conv.k;
  conv.src = (const char*)conv.src + group * conv.c;
  conv.weights += (size_t)group * run->group_bytes;
  conv.dst = (int32_t*)conv.dst + first;  // or float32
  conv.epilogue.bias += first;
  if (conv.epilogue.scale) conv.epilogue.scale += first;
  if (conv.epilogue.offset) conv.epilogue.offset += first;
  if (conv.epilogue.residual) conv.epilogue.residual = (const float*)conv.epilogue.residual + first;
  carnot_int8_part_range(&conv.epilogue, part);
  carnot_int8_conv_call(run->step, &conv, /*readable=*/run->is_image,
                        run->workspace + (size_t)carnot_executor_scratch(part) * run->s->part_bytes,
                        m0, m1, n0, n1);
}

// A padded image is made row by row.
typedef struct image_run {
  const carnot_window_geometry* g;
  const carnot_conv2d_u8s8* call;  // over the images
  const uint8_t* x;
  uint8_t* images;
  int zero;
} image_run;

static void image_row(void* argument, int64_t part) {
  const image_run* run = argument;
  const carnot_window_geometry* g = run->g;
  const int64_t row_bytes = run->call->src_h, image = part / run->call->h,
                h = part % run->call->h - g->pad_h, first = carnot_max_i64(0, -g->pad_w),
                last = carnot_min_i64(g->w, run->call->w - g->pad_w);
  uint8_t* out = run->images + part * row_bytes;
  memset(out, run->zero, (size_t)row_bytes);
  if (h < 0 || h >= g->h) return;
  const uint8_t* row = run->x + image * g->src_n + h * g->src_h;
  for (int64_t w = first; w < last; w++)
    for (int64_t c = 0; c < g->c; c++) out[(w + g->pad_w) * g->c + c] = row[w * g->src_w + c];
}

// |conv| over the padded images in the workspace.
static void make_images(const carnot_integer_conv_state* s, int zero, void* workspace,
                        carnot_conv2d_u8s8* conv, carnot_executor* executor) {
  uint8_t* images = (uint8_t*)workspace + s->image;
  image_run run = {&s->geometry, conv, conv->src, images, zero};
  carnot_executor_parallel(executor, conv->n * conv->h, image_row, &run);
  memset(images + conv->n * conv->src_n, 0, kSlack);
  conv->src = images;
}

typedef struct depthwise_run {
  const carnot_cpu_kernels* kernels;
  int64_t rows, rows_per_part;
  carnot_depthwise_u8s8 conv;
} depthwise_run;

static void depthwise_part(void* argument, int64_t part) {
  const depthwise_run* run = argument;
  const int64_t row0 = part * run->rows_per_part;
  carnot_depthwise_u8s8 conv = run->conv;
  carnot_int8_part_range(&conv.epilogue, part);
  run->kernels->depthwise_u8s8(&conv, row0, carnot_min_i64(row0 + run->rows_per_part, run->rows));
}

static void run_depthwise(const carnot_step_view* step, const carnot_window_geometry* g,
                          const carnot_conv2d_u8s8* conv, carnot_executor* executor) {
  depthwise_run run = {.kernels = carnot_int8_kernels(step), .rows = g->n * g->p};
  run.rows_per_part = depthwise_rows_per_part(g);
  run.conv = (carnot_depthwise_u8s8){CARNOT_WINDOW_FIELDS(g),
                                     .c = g->c,
                                     .src = conv->src,
                                     .src_n = g->src_n,
                                     .src_h = g->src_h,
                                     .src_w = g->src_w,
                                     .src_signed = conv->src_signed,
                                     .weights = conv->weights,
                                     .border = conv->border,
                                     .dst = conv->dst,
                                     .ld = g->ld,
                                     .epilogue = conv->epilogue};
  carnot_executor_parallel(executor, carnot_ceildiv(run.rows, run.rows_per_part), depthwise_part,
                           &run);
}

void carnot_integer_conv_run(const carnot_integer_conv* conv, const carnot_integer_conv_state* s,
                             const carnot_step_view* step, const carnot_integer_conv_operands* o,
                             void* workspace, carnot_executor* executor) {
  const carnot_integer_conv flat = carnot_integer_conv_flat(conv);
  const int32_t* sums = step->constants[CARNOT_INTEGER_CONV_SUMS];
  const int zero = (int)(o->zero & 255);
  int32_t* bias = workspace;
  uint8_t* border = (uint8_t*)workspace + s->border;
  memset(border, zero, (size_t)flat.channels + 64);
  for (int64_t f = 0; f < conv->filters; f++)
    bias[f] =
        (int32_t)(uint32_t)(uint64_t)(-(o->zero + carnot_int8_shift(step->tactic, o->is_signed)) *
                                      (int64_t)sums[f]);
  const carnot_integer_conv_form form = carnot_integer_conv_form_of(&flat);
  conv_run run = {.step = step,
                  .is_image = form == CARNOT_INTEGER_CONV_IMAGE,
                  .group_bytes = carnot_integer_conv_group_bytes(step->tactic, &flat),
                  .s = s,
                  .workspace = (char*)workspace + s->tiles,
                  .conv = carnot_integer_conv_call(&flat, &s->geometry)};
  run.conv.src = o->x;
  run.conv.src_signed = o->is_signed;
  run.conv.weights = step->constants[CARNOT_INTEGER_CONV_WEIGHTS];
  run.conv.border = border;
  run.conv.dst = o->y;
  run.conv.epilogue = o->epilogue;
  run.conv.epilogue.bias = bias;
  if (carnot_int8_is_copied(s->planes)) {
    void* stacked = (char*)workspace + s->stacked;
    carnot_int8_stack_images(s->planes, &s->given, o->x, zero, 0, s->geometry.n, stacked, executor);
    run.conv.src = stacked;
  }
  if (form == CARNOT_INTEGER_CONV_DEPTHWISE) {
    run_depthwise(step, &s->geometry, &run.conv, executor);
    return;
  }
  if (run.is_image) make_images(s, zero, workspace, &run.conv, executor);
  carnot_executor_parallel(executor, s->parts, conv_part, &run);
}
