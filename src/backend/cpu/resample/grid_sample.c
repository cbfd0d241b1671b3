// RoiAlign and GridSample over channels-last float32 operands: where a place of the result reads is
// found once for all channels, then they are blended together.
#include "ops/grid_sample.h"
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "ops/roi.h"

// The input's image and the result, as both operators see them.
typedef struct image_state {
  int64_t channels, src_n, src_h, src_w, src_y, src_x;  // sizes and strides of the input
  int64_t n, h, w, dst_n, dst_h, dst_w;                 // and of the result
} image_state;

static carnot_status* image_shape(const carnot_operand* x, const carnot_operand* y,
                                  image_state* s) {
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   x->rank == 4 && y->rank == 4 && x->dims[1] == y->dims[1] && x->strides[1] == 1 &&
                   y->strides[1] == 1,
               INVALID_ARGUMENT, "operands are no float32 images of the same channels");
  *s = (image_state){.channels = x->dims[1],
                     .src_n = x->strides[0],
                     .src_h = x->dims[2],
                     .src_w = x->dims[3],
                     .src_y = x->strides[2],
                     .src_x = x->strides[3],
                     .n = y->dims[0],
                     .h = y->dims[2],
                     .w = y->dims[3],
                     .dst_n = y->strides[0],
                     .dst_h = y->strides[2],
                     .dst_w = y->strides[3]};
  return NULL;
}

static const char* sample_reject(carnot_problem* problem, carnot_op op, int rank, char* reason,
                                 size_t size) {
  const char* why = carnot_cpu_single(problem, op);
  if (!why) why = carnot_not_f32(&problem->inputs[0], "the input", 4, 4, reason, size);
  if (!why) why = carnot_not_f32(&problem->inputs[1], "what is read", rank, rank, reason, size);
  if (why) return why;
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = 1; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

// ---- roi_align ----

enum { kRegions = 1, kImages = 2 };

static const char* roi_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = sample_reject(problem, CARNOT_OP_ROI_ALIGN, 2, reason, size);
  if (!why && !carnot_cpu_is_index(problem->inputs[kImages].format.dtype))
    return "images are no indices";
  return why;
}
static carnot_status* roi_check(const carnot_step_view* step) {
  return carnot_cpu_check_single(step, CARNOT_OP_ROI_ALIGN, 3);
}

typedef struct roi_state {
  image_state image;
  carnot_roi_rule rule;
  int64_t images, per_part, part_count;
  int64_t row_room, column_room;  // for the taps of a part
  size_t part_bytes;
} roi_state;

static carnot_status* roi_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  roi_state* s = state;
  const carnot_operand *x = &inputs[0], *regions = &inputs[kRegions], *images = &inputs[kImages];
  *out_workspace_bytes = 0;
  CARNOT_TRY(image_shape(x, &outputs[0], &s->image));
  int64_t count = s->image.n;
  CARNOT_CHECK(regions->format.dtype == CARNOT_DTYPE_F32 && regions->rank == 2 &&
                   regions->dims[0] == count && regions->dims[1] == 4 &&
                   carnot_cpu_is_dense(regions),
               INVALID_MODEL, "rois are no %lld rows of 4 float32", (long long)count);
  CARNOT_CHECK(carnot_cpu_is_index(images->format.dtype) && carnot_cpu_is_dense(images) &&
                   carnot_dims_count(images->dims, images->rank) == count,
               INVALID_MODEL, "batch_indices has %lld elements; %lld are required",
               (long long)carnot_dims_count(images->dims, images->rank), (long long)count);
  s->rule = carnot_roi_rule_of(&step->region->nodes[0].attrs);
  s->images = x->dims[0];
  // The cells of a row divide the image, and each reads two more than its share at most.
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

// The taps of a cell, or of all cells of a row one behind the other.
typedef struct roi_taps {
  carnot_tap* taps;
  int64_t count, room;
  bool mean;
  bool outside;  // a point of the cell lies outside of the map
} roi_taps;

// Points go one way, so that an element which comes again is among the last three.
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
  const image_state* m = &s->image;
  const float* roi = run->regions + region * 4;
  carnot_roi_side across = carnot_roi_side_of(&s->rule, roi[0], roi[2], m->w),
                  down = carnot_roi_side_of(&s->rule, roi[1], roi[3], m->h);
  carnot_blend_f32 blend = {.channels = m->channels,
                            .src = run->src + carnot_cpu_index_at(run->images, region) * m->src_n,
                            .rows = rows->taps};
  columns->count = 0;
  // An end below 0 tells that points of the cell lie outside.
  for (int64_t j = 0; j < m->w; j++) {
    add_cell(columns, &across, j, m->src_w, m->src_x);
    ends[j] = columns->outside ? ~columns->count : columns->count;
  }
  for (int64_t i = 0; i < m->h; i++) {
    rows->count = 0;
    add_cell(rows, &down, i, m->src_h, m->src_y);
    blend.row_count = rows->count;
    for (int64_t j = 0, from = 0; j < m->w; j++) {
      int64_t to = ends[j] < 0 ? ~ends[j] : ends[j];
      float* dst = run->dst + region * m->dst_n + i * m->dst_h + j * m->dst_w;
      blend.columns = columns->taps + from;
      blend.column_count = to - from;
      blend.least = rows->outside || ends[j] < 0 ? 0 : -INFINITY;
      (s->rule.mean ? run->kernels->blend_f32 : run->kernels->blend_max_f32)(&blend, dst);
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

static carnot_status* roi_run_row(const carnot_step_view* step, void* state,
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

// ---- grid_sample of images ----

static const char* grid_reject(carnot_problem* problem, char* reason, size_t size) {
  return sample_reject(problem, CARNOT_OP_GRID_SAMPLE, 4, reason, size);
}
static carnot_status* grid_check(const carnot_step_view* step) {
  return carnot_cpu_check_single(step, CARNOT_OP_GRID_SAMPLE, 2);
}

typedef struct grid_state {
  image_state image;
  carnot_sample_rule rule;
  int64_t pixels, per_part;
} grid_state;

static carnot_status* grid_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  grid_state* s = state;
  const carnot_operand* grid = &inputs[1];
  *out_workspace_bytes = 0;
  CARNOT_TRY(image_shape(&inputs[0], &outputs[0], &s->image));
  const image_state* m = &s->image;
  CARNOT_CHECK(inputs[0].dims[0] == m->n && grid->format.dtype == CARNOT_DTYPE_F32 &&
                   grid->rank == 4 && grid->dims[0] == m->n && grid->dims[1] == m->h &&
                   grid->dims[2] == m->w && grid->dims[3] == 2 && carnot_cpu_is_dense(grid),
               INVALID_MODEL, "the grid has %lld elements; %lld are required",
               (long long)carnot_dims_count(grid->dims, grid->rank),
               (long long)(m->n * m->h * m->w * 2));
  s->rule = carnot_sample_rule_of(&step->region->nodes[0].attrs);
  s->pixels = m->n * m->h * m->w;
  s->per_part = carnot_rows_per_part(s->pixels, m->channels * s->rule.taps * s->rule.taps);
  return NULL;
}

typedef struct grid_run {
  const carnot_cpu_kernels* kernels;
  const grid_state* s;
  const float *src, *grid;
  float* dst;
} grid_run;

// The taps at coordinate |n|; elements outside drop out.
static int64_t read_taps(const carnot_sample_rule* rule, float n, int64_t size, int64_t stride,
                         carnot_tap* taps) {
  int64_t elements[CARNOT_SAMPLE_TAPS], count = 0;
  double weights[CARNOT_SAMPLE_TAPS];
  carnot_sample_taps(rule, n, size, elements, weights);
  for (int64_t k = 0; k < rule->taps; k++)
    if (elements[k] >= 0) taps[count++] = (carnot_tap){elements[k] * stride, (float)weights[k], 0};
  return count;
}

static void grid_part(void* argument, int64_t part) {
  const grid_run* run = argument;
  const grid_state* s = run->s;
  const image_state* m = &s->image;
  carnot_tap rows[CARNOT_SAMPLE_TAPS], columns[CARNOT_SAMPLE_TAPS];
  carnot_blend_f32 blend = {.channels = m->channels, .rows = rows, .columns = columns};
  int64_t first = part * s->per_part, last = carnot_min_i64(first + s->per_part, s->pixels);
  for (int64_t p = first; p < last; p++) {
    int64_t j = p % m->w, i = p / m->w % m->h, n = p / (m->w * m->h);
    blend.src = run->src + n * m->src_n;
    blend.column_count = read_taps(&s->rule, run->grid[2 * p], m->src_w, m->src_x, columns);
    blend.row_count = read_taps(&s->rule, run->grid[2 * p + 1], m->src_h, m->src_y, rows);
    run->kernels->blend_f32(&blend, run->dst + n * m->dst_n + i * m->dst_h + j * m->dst_w);
  }
}

static carnot_status* grid_run_row(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  grid_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .s = state,
                  .src = inputs[0].data,
                  .grid = inputs[1].data,
                  .dst = outputs[0].data};
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->pixels, run.s->per_part), grid_part,
                           &run);
  return NULL;
}

CARNOT_CPU_ROWS(roi_align_f32, .anchor = CARNOT_OP_ROI_ALIGN, .strided_outputs = true,
                .reject = roi_reject, .validate = roi_check, .configure = roi_shape,
                .run = roi_run_row);
CARNOT_CPU_ROWS(grid_sample_f32, .anchor = CARNOT_OP_GRID_SAMPLE, .strided_outputs = true,
                .reject = grid_reject, .validate = grid_check, .configure = grid_shape,
                .run = grid_run_row);
