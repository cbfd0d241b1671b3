// CropAndResize over channels-last float32 images: the taps of a position are computed once for all
// channels, then the channels are interpolated together.
#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/resample/image_sampling.h"
#include "ops/roi.h"

enum { kBoxes = 1, kImages = 2 };

static const char* crop_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why =
      carnot_image_sampling_reject(problem, CARNOT_OP_CROP_AND_RESIZE, 2, reason, size);
  if (!why && !carnot_cpu_is_index(problem->inputs[kImages].format.dtype))
    return "batch_indices are not integers";
  return why;
}

typedef struct crop_state {
  carnot_image_geometry image;
  int64_t images, lines, per_part;  // lines: rows of all crops
  float extrapolation;
  bool nearest;
} crop_state;

static carnot_status* crop_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  crop_state* s = state;
  const carnot_operand *boxes = &inputs[kBoxes], *images = &inputs[kImages];
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* op = carnot_op_get(node->op);
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_image_geometry_of(&inputs[0], &outputs[0], &s->image));
  int64_t crops = s->image.n;
  CARNOT_CHECK(boxes->format.dtype == CARNOT_DTYPE_F32 && boxes->rank == 2 &&
                   boxes->dims[0] == crops && boxes->dims[1] == 4 && carnot_cpu_is_dense(boxes),
               INVALID_MODEL, "rois are not [%lld,4] of float32", (long long)crops);
  CARNOT_CHECK(carnot_cpu_is_index(images->format.dtype) && carnot_cpu_is_dense(images) &&
                   carnot_dims_count(images->dims, images->rank) == crops,
               INVALID_MODEL, "batch_indices has %lld elements; %lld are required",
               (long long)carnot_dims_count(images->dims, images->rank), (long long)crops);
  s->images = inputs[0].dims[0];
  s->extrapolation = (float)carnot_attr_float(op, &node->attrs, "extrapolation_value");
  s->nearest = carnot_attr_is(op, &node->attrs, "mode", "nearest");
  s->lines = crops * s->image.h;
  s->per_part = carnot_rows_per_part(s->lines, s->image.w * s->image.channels * 4);
  return NULL;
}

typedef struct crop_run {
  const carnot_cpu_kernels* kernels;
  const crop_state* s;
  const float *src, *boxes;
  const carnot_operand* images;
  float* dst;
} crop_run;

// The taps of element |i| of |count| along a dimension of |size| pixels that are |stride| apart;
// returns their number, 0 where the position (ops/crop_and_resize.c) is outside the image.
static int taps_of(const crop_state* s, float first, float last, int64_t i, int64_t count,
                   int64_t size, int64_t stride, carnot_tap* taps) {
  const double at = carnot_crop_position(first, last, i, count, size);
  if (!(at >= 0 && at <= (double)(size - 1))) return 0;
  int64_t low = (int64_t)(s->nearest ? round(at) : floor(at));
  float part = (float)(at - (double)low);
  bool one = s->nearest || part == 0;
  taps[0] = (carnot_tap){low * stride, one ? 1 : 1 - part, 0};
  if (!one) taps[1] = (carnot_tap){(low + 1) * stride, part, 0};
  return one ? 1 : 2;
}

static void crop_line(const crop_run* run, int64_t line) {
  const crop_state* s = run->s;
  const carnot_image_geometry* m = &s->image;
  int64_t crop = line / m->h, i = line % m->h;
  const float* box = run->boxes + crop * 4;
  carnot_tap rows[2], columns[2];
  carnot_interpolate_f32 interpolate = {
      .channels = m->channels,
      .src = run->src + carnot_cpu_index_at(run->images, crop) * m->src_n,
      .rows = rows,
      .columns = columns,
      .row_count = taps_of(s, box[0], box[2], i, m->h, m->src_h, m->src_y, rows)};
  for (int64_t j = 0; j < m->w; j++) {
    float* dst = run->dst + crop * m->dst_n + i * m->dst_h + j * m->dst_w;
    interpolate.column_count = taps_of(s, box[1], box[3], j, m->w, m->src_w, m->src_x, columns);
    if (interpolate.row_count && interpolate.column_count)
      run->kernels->interpolate_f32(&interpolate, dst);
    else
      for (int64_t c = 0; c < m->channels; c++) dst[c] = s->extrapolation;
  }
}

static void crop_part(void* argument, int64_t part) {
  const crop_run* run = argument;
  int64_t first = part * run->s->per_part,
          last = carnot_min_i64(first + run->s->per_part, run->s->lines);
  for (int64_t line = first; line < last; line++) crop_line(run, line);
}

static carnot_status* crop_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  crop_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .s = state,
                  .src = inputs[0].data,
                  .boxes = inputs[kBoxes].data,
                  .images = &inputs[kImages],
                  .dst = outputs[0].data};
  for (int64_t i = 0; i < run.s->image.n; i++) {
    int64_t image = carnot_cpu_index_at(run.images, i);
    CARNOT_CHECK(image >= 0 && image < run.s->images, INVALID_ARGUMENT,
                 "batch_indices[%lld] is %lld; the batch has %lld images", (long long)i,
                 (long long)image, (long long)run.s->images);
  }
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->lines, run.s->per_part), crop_part,
                           &run);
  return NULL;
}

CARNOT_CPU_TACTICS(crop_and_resize_f32, .anchor = CARNOT_OP_CROP_AND_RESIZE,
                   .strided_outputs = true, .reject = crop_reject,
                   .validate = carnot_cpu_check_single, .configure = crop_configure,
                   .run = crop_run_all);
