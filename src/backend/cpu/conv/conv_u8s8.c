// Quantized convolution as an implicit GEMM accumulated in INT32, with its whole epilogue: by dot
// products of rows, or by AMX tiles.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/int8_conv_planes.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

static const carnot_int8_conv_limits kLimits = {.rank = 3, .taps = CARNOT_INT8_MAX_TAPS};

// Of a convolution of one or two dimensions, like the functions below.
static carnot_int8_weights_shape shape_of(const carnot_int8_conv_params* p) {
  return (carnot_int8_weights_shape){p->group, carnot_int8_conv_taps(p), p->channels / p->group,
                                     p->filters / p->group};
}

// One group; what operands hold is missing.
static carnot_conv2d_u8s8 call_of(const carnot_int8_conv_params* p,
                                  const carnot_window_geometry* g) {
  return (carnot_conv2d_u8s8){CARNOT_WINDOW_FIELDS(g),
                              .c = p->channels / p->group,
                              .k = p->filters / p->group,
                              .src_n = g->src_n,
                              .src_h = g->src_h,
                              .src_w = g->src_w,
                              .src_signed = p->region.x_signed,
                              .ld = g->ld};
}

static const char* tiles_reject(const carnot_int8_conv_params* p, char* reason, size_t size) {
  const carnot_window_geometry any = carnot_window_geometry_of_any_size(&p->window, p->channels);
  const carnot_conv2d_u8s8 call = call_of(p, &any);
  return carnot_int8_tiles_reject(&call, p->group, reason, size);
}

// Tiles take windows whose pixels do not fit in L2, as those of many channels far apart, from a
// copy of the pixels under each filter.
static carnot_int8_planes form_of(const carnot_tactic* tactic, const carnot_int8_conv_params* p) {
  const carnot_int8_planes planes = carnot_int8_planes_of(&p->window);
  if (!carnot_int8_uses_tiles(tactic) || p->group > 1 ||
      p->channels * carnot_int8_conv_taps(p) > CARNOT_INT8_MAX_CHANNELS)
    return planes;
  const carnot_int8_conv_params flat = carnot_int8_conv_flat(planes, p);
  const carnot_window_geometry any =
      carnot_window_geometry_of_any_size(&flat.window, flat.channels);
  const carnot_conv2d_u8s8 call = call_of(&flat, &any);
  return carnot_int8_tiles_fit(&call) ? planes : CARNOT_INT8_TAPS_AS_CHANNELS;
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_int8_conv_params p;
  const char* why = carnot_int8_conv_read(problem, &kLimits, &p, reason, size);
  if (why || !carnot_int8_uses_tiles(problem->tactic)) return why;
  const carnot_int8_conv_params flat = carnot_int8_conv_flat(form_of(problem->tactic, &p), &p);
  return tiles_reject(&flat, reason, size);
}

static size_t packed_bytes(const carnot_tactic* tactic, const carnot_int8_conv_params* p) {
  const carnot_int8_conv_params flat = carnot_int8_conv_flat(form_of(tactic, p), p);
  const carnot_int8_weights_shape shape = shape_of(&flat);
  return carnot_int8_group_bytes(tactic, &shape) * (size_t)p->group;
}

static carnot_status* pack(const carnot_problem* problem, const carnot_int8_conv_params* p,
                           const int8_t* weights, carnot_prepared* out) {
  const carnot_int8_planes planes = form_of(problem->tactic, p);
  const carnot_int8_conv_params flat = carnot_int8_conv_flat(planes, p);
  const carnot_int8_weights_shape shape = shape_of(&flat);
  void* stacked = NULL;
  if (carnot_int8_is_copied(planes)) {
    CARNOT_TRY(carnot_calloc((size_t)(shape.n * shape.c * shape.taps), 1, "weights before packing",
                             &stacked));
    carnot_int8_stack_weights(planes, &p->window, p->filters, p->channels, weights, stacked);
  }
  carnot_status* status =
      carnot_int8_pack(problem->tactic, &shape, stacked ? stacked : weights, shape.c * shape.taps,
                       1, shape.taps, CARNOT_INT8_WEIGHTS, out);
  free(stacked);
  return status;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  int8_t* weights;
  CARNOT_TRY(carnot_int8_conv_prepare(problem, &kLimits, carnot_int8_shift(problem->tactic, true),
                                      out, &weights));
  carnot_status* status = pack(problem, out->params, weights, out);
  free(weights);
  return status;
}

static carnot_status* conv_validate(const carnot_step_view* step) {
  return carnot_int8_conv_validate(step, &kLimits, packed_bytes);
}

typedef struct conv_state {
  carnot_int8_planes planes;
  carnot_window_geometry given;     // of the operands
  carnot_int8_conv_params conv;     // of two dimensions
  carnot_window_geometry geometry;  // of |at_once| images
  int64_t images, at_once;          // all images, and those that are computed at once
  carnot_work_partition partition;
  size_t part_bytes, stacked_bytes;  // of workspace
} conv_state;

enum { kStackedBytes = 4 << 20 };  // of images that are copied at once, if it is more than one

// As many images as fit into kStackedBytes, evenly.
static void set_stacked(conv_state* s) {
  const size_t bytes = (size_t)s->geometry.src_n;
  const int64_t most = carnot_max_i64(1, kStackedBytes / carnot_max_i64(1, (int64_t)bytes));
  s->at_once =
      carnot_ceildiv(s->images, carnot_ceildiv(s->images, carnot_min_i64(most, s->images)));
  s->stacked_bytes = carnot_align_up(bytes * (size_t)s->at_once + 64, 64);
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* s = memory;
  const carnot_int8_conv_params* p = step->params;
  *out_workspace_bytes = 0;
  *s = (conv_state){.planes = form_of(step->tactic, p)};
  s->conv = carnot_int8_conv_flat(s->planes, p);
  CARNOT_TRY(carnot_int8_conv_configure(step, inputs, outputs, &s->given));
  CARNOT_TRY(carnot_int8_flat_geometry(s->planes, &s->given, &s->geometry));
  s->images = s->at_once = s->geometry.n;
  if (carnot_int8_is_copied(s->planes) && s->images > 0) set_stacked(s);
  s->geometry.n = s->at_once;
  const carnot_conv2d_u8s8 call = call_of(&s->conv, &s->geometry);
  s->partition = carnot_int8_conv_partition(step, &call);
  if (carnot_int8_uses_tiles(step->tactic)) CARNOT_TRY(carnot_int8_tiles_check(&call));
  s->part_bytes = carnot_int8_conv_workspace(step->tactic, &call, /*readable=*/false);
  *out_workspace_bytes =
      s->stacked_bytes +
      s->part_bytes * (size_t)(carnot_work_partition_count(&s->partition) * p->group);
  return NULL;
}

// Of the images that are computed at once.
typedef struct conv_run {
  const carnot_int8_conv_params* p;
  const conv_state* s;
  const carnot_step_view* step;
  int64_t pixels;  // of the result
  const char* x;
  char *y, *workspace;
  int64_t y_bytes, residual_bytes;  // of an element
  carnot_int8_epilogue epilogue;
} conv_run;

// The epilogue of the filters from |first| on.
static carnot_int8_epilogue epilogue_at(const conv_run* run, int64_t first) {
  carnot_int8_epilogue e = run->epilogue;
  e.bias += first;
  e.scale += first;
  if (e.residual) e.residual = (const char*)e.residual + first * run->residual_bytes;
  return e;
}

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_int8_conv_params* p = run->p;
  const int64_t parts = carnot_work_partition_count(&run->s->partition), group = part / parts,
                c = p->channels / p->group, k = p->filters / p->group;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part % parts, &m0, &m1, &n0, &n1);
  m1 = carnot_min_i64(m1, run->pixels);
  if (m0 >= m1) return;
  const int8_t* weights = run->step->constants[CARNOT_INT8_WEIGHTS];
  const carnot_int8_weights_shape shape = shape_of(p);
  carnot_conv2d_u8s8 conv = call_of(p, &run->s->geometry);
  conv.n = run->pixels / (conv.p * conv.q);
  conv.src = run->x + group * c;
  conv.weights = weights + (size_t)group * carnot_int8_group_bytes(run->step->tactic, &shape);
  conv.border = run->step->constants[CARNOT_INT8_BORDER];
  conv.dst = run->y + group * k * run->y_bytes;
  conv.epilogue = epilogue_at(run, group * k);
  carnot_int8_conv_call(run->step, &conv, /*readable=*/false,
                        run->workspace + (size_t)carnot_executor_scratch(part) * run->s->part_bytes,
                        m0, m1, n0, n1);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const conv_state* s = memory;
  const carnot_int8_conv_params* p = &s->conv;
  const carnot_window_geometry* g = &s->geometry;
  const int64_t parts = p->group * carnot_work_partition_count(&s->partition);
  const bool stacks = carnot_int8_is_copied(s->planes);
  conv_run run = {
      .p = p,
      .s = s,
      .step = step,
      .x = stacks ? workspace : inputs[p->region.x].data,
      .y = outputs[0].data,
      .workspace = (char*)workspace + s->stacked_bytes,
      .y_bytes = p->region.output == CARNOT_INT8_OUTPUT_F32 ? 4 : 1,
      .residual_bytes = p->region.residual_type == CARNOT_INT8_RESIDUAL_F32 ? 4 : 1,
      .epilogue = carnot_int8_region_epilogue(&p->region, outputs[0].rank - 1, step, inputs)};
  for (int64_t image = 0; image < s->images; image += s->at_once) {
    const int64_t count = carnot_min_i64(s->at_once, s->images - image);
    if (stacks)
      carnot_int8_stack_images(s->planes, &s->given, inputs[p->region.x].data, p->region.x_zero,
                               image, count, workspace, executor);
    run.pixels = count * g->p * g->q;
    carnot_executor_parallel(executor, parts, conv_part, &run);
    run.y += run.pixels * g->ld * run.y_bytes;
    if (run.epilogue.residual)
      run.epilogue.residual = (const char*)run.epilogue.residual +
                              run.pixels * run.epilogue.residual_ld * run.residual_bytes;
  }
  return NULL;
}

static bool conv_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_int8_conv_params* p = step->params;
  return !carnot_int8_uses_tiles(step->tactic) &&
         carnot_int8_region_may_share(&p->region, step, input, output);
}

#define CONV_TACTIC                                                                              \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .reject = conv_reject,                      \
  .prepare = conv_prepare, .validate = conv_validate, .uses_input = carnot_int8_conv_uses_input, \
  .configure = conv_configure, .run = conv_run_all, .may_share = conv_may_share,                 \
  .work = carnot_int8_region_work
CARNOT_CPU_TACTICS(conv_u8s8, CONV_TACTIC);
CARNOT_CPU_TACTIC(conv_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, CONV_TACTIC);
