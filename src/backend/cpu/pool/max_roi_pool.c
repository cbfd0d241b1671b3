// MaxRoiPool over channels-last float32: the cells of a region, all channels of each together.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/resample/image_sampling.h"
#include "ops/roi.h"

#include <math.h>

enum { kRegions = 1, kColumns = 5 };

static const char* max_roi_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_image_sampling_reject(problem, CARNOT_OP_MAX_ROI_POOL, 2, reason, size);
}

typedef struct max_roi_state {
  carnot_image_geometry image;
  int64_t images, per_part, part_count, taps;  // taps: rows and columns of a part
  double scale;
} max_roi_state;

static carnot_status* max_roi_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  max_roi_state* s = state;
  const carnot_operand *x = &inputs[0], *regions = &inputs[kRegions];
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_image_geometry_of(x, &outputs[0], &s->image));
  CARNOT_CHECK(regions->format.dtype == CARNOT_DTYPE_F32 && regions->rank == 2 &&
                   regions->dims[0] == s->image.n && regions->dims[1] == kColumns &&
                   carnot_cpu_is_dense(regions),
               INVALID_MODEL, "rois are not %lld rows of %d float32", (long long)s->image.n,
               kColumns);
  s->images = x->dims[0];
  s->scale = carnot_attr_float(carnot_op_get(CARNOT_OP_MAX_ROI_POOL), &step->region->nodes[0].attrs,
                               "spatial_scale");
  s->taps = s->image.src_h + s->image.src_w;
  s->per_part = carnot_rows_per_part(s->image.n, s->image.h * s->image.w * s->image.channels * 4);
  s->part_count = carnot_ceildiv(s->image.n, s->per_part);
  *out_workspace_bytes = (size_t)(s->part_count * s->taps) * sizeof(carnot_tap);
  return NULL;
}

typedef struct max_roi_run {
  const max_roi_state* s;
  carnot_interpolate_max_f32_fn* kernel;
  const float *src, *regions;
  float* dst;
  carnot_tap* taps;
} max_roi_run;

// The elements of cell |i| of |cells| of a side, |stride| apart.
static int64_t cell_taps(const carnot_max_roi_side* side, int64_t i, int64_t cells, int64_t size,
                         int64_t stride, carnot_tap* taps) {
  int64_t from, to, count = 0;
  carnot_max_roi_cell(side, i, cells, size, &from, &to);
  for (int64_t at = from; at < to; at++) taps[count++] = (carnot_tap){at * stride, 1, 1};
  return count;
}

static void pool_region(const max_roi_run* run, int64_t region, carnot_tap* taps) {
  const max_roi_state* s = run->s;
  const carnot_image_geometry* m = &s->image;
  const float* roi = run->regions + region * kColumns;
  const carnot_max_roi_side across = carnot_max_roi_side_of(roi[1], roi[3], s->scale),
                            down = carnot_max_roi_side_of(roi[2], roi[4], s->scale);
  carnot_interpolate_f32 cell = {.channels = m->channels,
                                 .src = run->src + (int64_t)roi[0] * m->src_n,
                                 .rows = taps,
                                 .columns = taps + m->src_h};
  for (int64_t i = 0; i < m->h; i++) {
    cell.row_count = cell_taps(&down, i, m->h, m->src_h, m->src_y, taps);
    for (int64_t j = 0; j < m->w; j++) {
      cell.column_count = cell_taps(&across, j, m->w, m->src_w, m->src_x, taps + m->src_h);
      cell.least = cell.row_count && cell.column_count ? -INFINITY : 0;
      run->kernel(&cell, run->dst + region * m->dst_n + i * m->dst_h + j * m->dst_w);
    }
  }
}

static void max_roi_part(void* argument, int64_t part) {
  const max_roi_run* run = argument;
  const max_roi_state* s = run->s;
  const int64_t first = part * s->per_part, last = carnot_min_i64(first + s->per_part, s->image.n);
  for (int64_t r = first; r < last; r++) pool_region(run, r, run->taps + part * s->taps);
}

static carnot_status* max_roi_run_all(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  max_roi_run run = {.s = state,
                     .kernel = carnot_cpu_kernels_of(step->tactic->isa)->interpolate_max_f32,
                     .src = inputs[0].data,
                     .regions = inputs[kRegions].data,
                     .dst = outputs[0].data,
                     .taps = workspace};
  for (int64_t i = 0; i < run.s->image.n; i++)
    CARNOT_TRY(carnot_roi_check_image(carnot_roi_position((double)run.regions[i * kColumns]),
                                      run.s->images));
  carnot_executor_parallel(executor, run.s->part_count, max_roi_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(max_roi_pool_f32, .anchor = CARNOT_OP_MAX_ROI_POOL, .strided_outputs = true,
                   .reject = max_roi_reject, .validate = carnot_cpu_check_single,
                   .configure = max_roi_configure, .run = max_roi_run_all);
