// RoiAlign over channels-last float32 operands: the taps of a cell are computed once for all
// channels, then the channels are interpolated together.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/resample/image_sampling.h"
#include "ops/roi.h"

enum { kRegions = 1, kImages = 2 };

static const char* roi_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_image_sampling_reject(problem, CARNOT_OP_ROI_ALIGN, 2, reason, size);
  if (!why && !carnot_cpu_is_index(problem->inputs[kImages].format.dtype))
    return "the batch indices are not integers";
  return why;
}
typedef struct roi_state {
  carnot_image_geometry image;
  carnot_roi_rule rule;
  int64_t images, per_part, part_count;
  int64_t row_room, column_room;  // for the taps of a part
  size_t part_bytes;
} roi_state;

static carnot_status* roi_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  roi_state* s = state;
  const carnot_operand *x = &inputs[0], *regions = &inputs[kRegions], *images = &inputs[kImages];
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_image_geometry_of(x, &outputs[0], &s->image));
  int64_t count = s->image.n;
  CARNOT_CHECK(regions->format.dtype == CARNOT_DTYPE_F32 && regions->rank == 2 &&
                   regions->dims[0] == count && regions->dims[1] == 4 &&
                   carnot_cpu_is_dense(regions),
               INVALID_MODEL, "rois are not %lld rows of 4 float32", (long long)count);
  CARNOT_CHECK(carnot_cpu_is_index(images->format.dtype) && carnot_cpu_is_dense(images) &&
                   carnot_dims_count(images->dims, images->rank) == count,
               INVALID_MODEL, "batch_indices has %lld elements; %lld are required",
               (long long)carnot_dims_count(images->dims, images->rank), (long long)count);
  s->rule = carnot_roi_rule_of(&step->region->nodes[0].attrs);
  s->images = x->dims[0];
  // The cells of a row partition the image, and each reads at most two elements more than its
  // share.
  s->row_room = s->image.src_h + 2;
  s->column_room = s->image.src_w + 2 * s->image.w;
  s->part_bytes = (size_t)(s->row_room + s->column_room) * sizeof(carnot_tap) +
                  (size_t)(s->image.w + 1) * sizeof(int64_t);
  s->per_part = carnot_rows_per_part(count, s->image.h * s->image.w * s->image.channels * 4);
  s->part_count = carnot_ceildiv(count, s->per_part);
  *out_workspace_bytes = s->part_bytes * (size_t)s->part_count;
  return NULL;
}

typedef struct roi_run {
  const carnot_cpu_kernels* kernels;
  const roi_state* s;
  const float *src, *regions;
  const carnot_operand* images;
  float* dst;
  char* workspace;
} roi_run;

// The taps of one cell, or of all cells of a row in order.
typedef struct roi_taps {
  carnot_tap* taps;
  int64_t count, room;
  bool mean;
  bool outside;  // a sample point of the cell is outside the image
} roi_taps;

// The sample points are monotonic, so that a repeated element is among the last three taps.
static void add_tap(roi_taps* t, int64_t first, int64_t offset, float weight) {
  for (int64_t i = t->count - 1; i >= first && i >= t->count - 3; i--) {
    carnot_tap* tap = &t->taps[i];
    if (tap->offset != offset) continue;
    tap->weight = t->mean ? tap->weight + weight : fmaxf(tap->weight, weight);
    tap->low = fminf(tap->low, weight);
    return;
  }
  if (t->count < t->room) t->taps[t->count++] = (carnot_tap){offset, weight, weight};
}

// Adds those of cell |cell| in a dimension of |size| whose elements are |stride| apart.
static void add_cell(roi_taps* t, const carnot_roi_side* side, int64_t cell, int64_t size,
                     int64_t stride) {
  double share = t->mean ? 1 / (double)side->points : 1, part;
  int64_t first = t->count, low, high;
  t->outside = side->points == 0;
  for (int64_t k = 0; k < side->points; k++) {
    double at = carnot_roi_point(side, cell, k);
    if (carnot_roi_neighbours(at, size, &low, &high, &part)) {
      add_tap(t, first, low * stride, (float)((1 - part) * share));
      add_tap(t, first, high * stride, (float)(part * share));
    } else {
      t->outside = true;
    }
  }
}

static void align_region(const roi_run* run, int64_t region, roi_taps* rows, roi_taps* columns,
                         int64_t* ends) {
  const roi_state* s = run->s;
  const carnot_image_geometry* m = &s->image;
  const float* roi = run->regions + region * 4;
  carnot_roi_side across = carnot_roi_side_of(&s->rule, roi[0], roi[2], m->w),
                  down = carnot_roi_side_of(&s->rule, roi[1], roi[3], m->h);
  carnot_interpolate_f32 interpolate = {
      .channels = m->channels,
      .src = run->src + carnot_cpu_index_at(run->images, region) * m->src_n,
      .rows = rows->taps};
  columns->count = 0;
  // A negative end means that sample points of the cell are outside the image.
  for (int64_t j = 0; j < m->w; j++) {
    add_cell(columns, &across, j, m->src_w, m->src_x);
    ends[j] = columns->outside ? ~columns->count : columns->count;
  }
  for (int64_t i = 0; i < m->h; i++) {
    rows->count = 0;
    add_cell(rows, &down, i, m->src_h, m->src_y);
    interpolate.row_count = rows->count;
    for (int64_t j = 0, from = 0; j < m->w; j++) {
      int64_t to = ends[j] < 0 ? ~ends[j] : ends[j];
      float* dst = run->dst + region * m->dst_n + i * m->dst_h + j * m->dst_w;
      interpolate.columns = columns->taps + from;
      interpolate.column_count = to - from;
      interpolate.least = rows->outside || ends[j] < 0 ? 0 : -INFINITY;
      (s->rule.mean ? run->kernels->interpolate_f32 : run->kernels->interpolate_max_f32)(
          &interpolate, dst);
      from = to;
    }
  }
}

static void roi_part(void* argument, int64_t part) {
  const roi_run* run = argument;
  const roi_state* s = run->s;
  carnot_tap* taps = (void*)(run->workspace + (size_t)part * s->part_bytes);
  roi_taps rows = {.taps = taps, .room = s->row_room, .mean = s->rule.mean},
           columns = {.taps = taps + s->row_room, .room = s->column_room, .mean = s->rule.mean};
  int64_t* ends = (void*)(columns.taps + s->column_room);
  int64_t first = part * s->per_part, last = carnot_min_i64(first + s->per_part, s->image.n);
  for (int64_t r = first; r < last; r++) align_region(run, r, &rows, &columns, ends);
}

static carnot_status* roi_run_all(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  roi_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                 .s = state,
                 .src = inputs[0].data,
                 .regions = inputs[kRegions].data,
                 .images = &inputs[kImages],
                 .dst = outputs[0].data,
                 .workspace = workspace};
  for (int64_t i = 0; i < run.s->image.n; i++)
    CARNOT_TRY(carnot_roi_check_image(carnot_cpu_index_at(run.images, i), run.s->images));
  carnot_executor_parallel(executor, run.s->part_count, roi_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(roi_align_f32, .anchor = CARNOT_OP_ROI_ALIGN, .strided_outputs = true,
                   .reject = roi_reject, .validate = carnot_cpu_check_single,
                   .configure = roi_configure, .run = roi_run_all);
