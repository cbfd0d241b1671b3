// GridSample over channels-last float32 operands: the taps of an output pixel are computed once for
// all channels, then the channels are interpolated together.
#include "ops/grid_sample.h"
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/resample/image_sampling.h"

static const char* grid_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_image_sampling_reject(problem, CARNOT_OP_GRID_SAMPLE, 4, reason, size);
}
typedef struct grid_state {
  carnot_image_geometry image;
  carnot_sample_rule rule;
  int64_t pixels, per_part;
} grid_state;

static carnot_status* grid_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  grid_state* s = state;
  const carnot_operand* grid = &inputs[1];
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_image_geometry_of(&inputs[0], &outputs[0], &s->image));
  const carnot_image_geometry* m = &s->image;
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

// The taps at coordinate |n|, without those outside the image.
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
  const carnot_image_geometry* m = &s->image;
  carnot_tap rows[CARNOT_SAMPLE_TAPS], columns[CARNOT_SAMPLE_TAPS];
  carnot_interpolate_f32 interpolate = {.channels = m->channels, .rows = rows, .columns = columns};
  int64_t first = part * s->per_part, last = carnot_min_i64(first + s->per_part, s->pixels);
  for (int64_t p = first; p < last; p++) {
    int64_t j = p % m->w, i = p / m->w % m->h, n = p / (m->w * m->h);
    interpolate.src = run->src + n * m->src_n;
    interpolate.column_count = read_taps(&s->rule, run->grid[2 * p], m->src_w, m->src_x, columns);
    interpolate.row_count = read_taps(&s->rule, run->grid[2 * p + 1], m->src_h, m->src_y, rows);
    run->kernels->interpolate_f32(&interpolate,
                                  run->dst + n * m->dst_n + i * m->dst_h + j * m->dst_w);
  }
}

static carnot_status* grid_run_all(const carnot_step_view* step, void* state,
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

CARNOT_CPU_TACTICS(grid_sample_f32, .anchor = CARNOT_OP_GRID_SAMPLE, .strided_outputs = true,
                   .reject = grid_reject, .validate = carnot_cpu_check_single,
                   .configure = grid_configure, .run = grid_run_all);
