// Deformable convolution of pictures over channels-last float32: the samples of a block of pixels,
// interpolated channel by channel, are the rows of a GEMM with packed weights.
//   A[pixel, (tap, channel)] = mask * x at the pixel's position for the tap;  y = A * W^T + bias
#include <math.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/window_geometry.h"
#include "backend/cpu/conv/conv.h"
#include "kernel/cpu/resample/interpolate_f32.h"
#include "tactic/problem/conv.h"

enum { kX, kWeights, kOffsets, kBias, kMask, kBlock = 48, kMostParts = 16 };  // pixels of a block

typedef struct deform_params {
  carnot_sliding_window window;
  int64_t channels, filters, offset_groups;
  int32_t inputs[kMask + 1];  // of the step; -1: absent
} deform_params;

static int64_t tap_count(const deform_params* p) {
  return p->window.kernel[0] * p->window.kernel[1];
}
static int64_t depth_of(const deform_params* p) { return tap_count(p) * p->channels; }

static const carnot_operand_desc* given(const carnot_problem* problem, uint32_t i) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  return i < node->input_count && node->inputs[i] != CARNOT_PLAN_NONE
             ? &problem->inputs[node->inputs[i]]
             : NULL;
}

static const char* read_problem(const carnot_problem* problem, void* params, char* reason,
                                size_t size) {
  deform_params* p = params;
  *p = (deform_params){.channels = 0};
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (problem->region->node_count != 1 || node->op != CARNOT_OP_DEFORM_CONV) return "";
  for (uint32_t i = 0; i <= kMask; i++) {
    const carnot_operand_desc* t = given(problem, i);
    p->inputs[i] = t ? (int32_t)node->inputs[i] : -1;
    const char* why = t && i != kBias ? carnot_not_f32(t, "an operand", 4, 4, reason, size) : NULL;
    if (why) return why;
  }
  const carnot_operand_desc *w = given(problem, kWeights), *bias = given(problem, kBias);
  if (!carnot_is_f32_constant(w)) return "the weights are not constant";
  if (bias && !carnot_is_f32_constant(bias)) return "the bias is not constant";
  carnot_conv_problem conv = {.node = node};
  const char* why = carnot_conv_problem_sizes(given(problem, kX), w, &conv, reason, size);
  if (why) return why;
  if (conv.group != 1) return carnot_because(reason, size, "%lld groups", (long long)conv.group);
  p->window = conv.window;
  p->channels = conv.channels;
  p->filters = conv.filters;
  p->offset_groups = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "offset_group");
  if (p->channels % p->offset_groups) return "the channels do not divide into the offset groups";
  return NULL;
}

static const char* deform_reject(carnot_problem* problem, char* reason, size_t size) {
  deform_params p;
  const char* why = read_problem(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->inputs[p.inputs[kX]].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static size_t packed_bytes(const deform_params* p) {
  return (size_t)carnot_packed_k1n16_count(depth_of(p), p->filters) * sizeof(float);
}

static carnot_status* deform_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *packed, *bias;
  CARNOT_TRY(carnot_cpu_prepare_params(problem, read_problem, sizeof(deform_params), out));
  const deform_params* p = out->params;
  const size_t bias_bytes = carnot_align_up((size_t)p->filters, 16) * sizeof(float);
  CARNOT_TRY(carnot_arena_try(out->arena, packed_bytes(p) + 64, 1, "packed weights", &packed));
  CARNOT_TRY(carnot_arena_try(out->arena, bias_bytes, 1, "a bias", &bias));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  carnot_pack_conv_k1n16_f32(p->filters, p->channels, tap_count(p),
                             given(problem, kWeights)->tensor->data, packed);
  memset(bias, 0, bias_bytes);
  if (given(problem, kBias))
    memcpy(bias, given(problem, kBias)->tensor->data, (size_t)p->filters * sizeof(float));
  out->constant_count = 2;
  out->constants[0].packing = "k1n16 f32";
  out->constants[0].data = packed;
  out->constants[0].bytes = packed_bytes(p);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = bias_bytes;
  out->packed_inputs = (uint64_t)1 << p->inputs[kWeights];
  if (p->inputs[kBias] >= 0) out->packed_inputs |= (uint64_t)1 << p->inputs[kBias];
  return NULL;
}

static carnot_status* deform_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(deform_params) && step->constant_count == 2,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(deform_params));
  const deform_params* p = step->params;
  CARNOT_TRY(carnot_sliding_window_check(&p->window, 2, 2));
  CARNOT_CHECK(p->channels >= 1 && p->channels < 1 << 20 && p->filters >= 1 &&
                   p->filters < 1 << 20 && p->offset_groups >= 1 &&
                   p->channels % p->offset_groups == 0,
               INVALID_MODEL, "%lld channels in %lld groups to %lld filters",
               (long long)p->channels, (long long)p->offset_groups, (long long)p->filters);
  for (int i = 0; i <= kMask; i++)
    CARNOT_CHECK(p->inputs[i] < (int32_t)step->input_count &&
                     (p->inputs[i] >= 0 || i == kBias || i == kMask),
                 INVALID_MODEL, "operand %d is input %d of %u", i, p->inputs[i], step->input_count);
  CARNOT_CHECK(step->constant_bytes[0] == packed_bytes(p) &&
                   step->constant_bytes[1] >= (size_t)p->filters * sizeof(float),
               INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
               step->constant_bytes[1]);
  return NULL;
}

static bool deform_uses_input(const carnot_step_view* step, uint32_t input) {
  const deform_params* p = step->params;
  return (int32_t)input != p->inputs[kWeights] && (int32_t)input != p->inputs[kBias];
}

typedef struct deform_state {
  carnot_window_geometry geometry;
  int64_t pixels, out_size, per_part, part_count;
} deform_state;

// Float32 [N, groups * |each|, P, Q], dense.
static bool fits(const carnot_operand* t, const deform_params* p, const carnot_window_geometry* g,
                 int64_t each) {
  return t->format.dtype == CARNOT_DTYPE_F32 && t->rank == 4 && t->dims[0] == g->n &&
         t->dims[1] == p->offset_groups * each && t->dims[2] == g->p && t->dims[3] == g->q &&
         carnot_cpu_is_dense(t);
}

static carnot_status* deform_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  deform_state* s = memory;
  const deform_params* p = step->params;
  const carnot_operand *x = &inputs[p->inputs[kX]], *y = &outputs[0];
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   x->rank == 4 && y->rank == 4 && x->dims[1] == p->channels &&
                   y->dims[1] == p->filters,
               INVALID_MODEL, "operands are no float32 pictures of %lld and %lld channels",
               (long long)p->channels, (long long)p->filters);
  CARNOT_TRY(carnot_window_geometry_of(&p->window, x, y, &s->geometry));
  CARNOT_CHECK(
      fits(&inputs[p->inputs[kOffsets]], p, &s->geometry, 2 * tap_count(p)) &&
          (p->inputs[kMask] < 0 || fits(&inputs[p->inputs[kMask]], p, &s->geometry, tap_count(p))),
      INVALID_MODEL, "offsets or mask do not fit %lld taps of %lldx%lld pixels",
      (long long)tap_count(p), (long long)s->geometry.p, (long long)s->geometry.q);
  s->out_size = s->geometry.p * s->geometry.q;
  s->pixels = s->geometry.n * s->out_size;
  s->per_part = carnot_ceildiv(carnot_ceildiv(s->pixels, kBlock), kMostParts) * kBlock;
  s->part_count = carnot_ceildiv(s->pixels, s->per_part);
  *out_workspace_bytes = (size_t)(s->part_count * kBlock * depth_of(p)) * sizeof(float);
  return NULL;
}

typedef struct deform_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const deform_state* s;
  const float *x, *offsets, *mask;  // mask NULL: 1
  float *y, *rows;
} deform_run;

// The two elements of a dimension around |at|, |stride| apart, times |scale|; how many are inside.
static int64_t taps_at(float at, int64_t size, int64_t stride, float scale, carnot_tap* taps) {
  int64_t count = 0;
  if (!(at > -1 && at < (float)size)) return 0;
  const float low = floorf(at), part = at - low;
  const int64_t first = (int64_t)low;
  if (first >= 0) taps[count++] = (carnot_tap){first * stride, scale * (1 - part), 0};
  if (part > 0 && first + 1 < size)
    taps[count++] = (carnot_tap){(first + 1) * stride, scale * part, 0};
  return count;
}

// The samples of pixel |pixel| of all images: a row of A.
static void sample_pixel(const deform_run* run, int64_t pixel, float* row) {
  const deform_params* p = run->step->params;
  const carnot_window_geometry* g = &run->s->geometry;
  const int64_t size = run->s->out_size, n = pixel / size, at = pixel % size, taps = tap_count(p),
                channels = p->channels / p->offset_groups;
  const float h0 = (float)(at / g->q * g->stride_h - g->pad_h),
              w0 = (float)(at % g->q * g->stride_w - g->pad_w);
  for (int64_t i = 0; i < p->offset_groups * taps; i++) {
    const int64_t t = i % taps, first = i / taps * channels,
                  plane = n * p->offset_groups * taps + i;
    const float* offset = run->offsets + 2 * plane * size + at;
    carnot_tap rows[2], columns[2];
    const carnot_interpolate_f32 interpolate = {
        .channels = channels,
        .src = run->x + n * g->src_n + first,
        .row_count = taps_at(h0 + (float)(t / g->s * g->dilation_h) + offset[0], g->h, g->src_h,
                             run->mask ? run->mask[plane * size + at] : 1, rows),
        .column_count = taps_at(w0 + (float)(t % g->s * g->dilation_w) + offset[size], g->w,
                                g->src_w, 1, columns),
        .rows = rows,
        .columns = columns};
    run->kernels->interpolate_f32(&interpolate, row + t * p->channels + first);
  }
}

static void deform_part(void* argument, int64_t part) {
  const deform_run* run = argument;
  const deform_state* s = run->s;
  const deform_params* p = run->step->params;
  const int64_t depth = depth_of(p), end = carnot_min_i64((part + 1) * s->per_part, s->pixels);
  float* rows = run->rows + part * kBlock * depth;
  for (int64_t first = part * s->per_part; first < end; first += kBlock) {
    const int64_t count = carnot_min_i64(kBlock, end - first);
    for (int64_t i = 0; i < count; i++) sample_pixel(run, first + i, rows + i * depth);
    const carnot_gemm_f32 gemm = {.m = count,
                                  .n = p->filters,
                                  .k = depth,
                                  .a = rows,
                                  .lda = depth,
                                  .b = run->step->constants[0],
                                  .c = run->y + first * s->geometry.ld,
                                  .ldc = s->geometry.ld,
                                  .epilogue = {.bias = run->step->constants[1]}};
    run->kernels->gemm_f32(&gemm, 0, count, 0, p->filters);
  }
}

static carnot_status* deform_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  const deform_params* p = step->params;
  deform_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                    .step = step,
                    .s = state,
                    .x = inputs[p->inputs[kX]].data,
                    .offsets = inputs[p->inputs[kOffsets]].data,
                    .mask = p->inputs[kMask] < 0 ? NULL : inputs[p->inputs[kMask]].data,
                    .y = outputs[0].data,
                    .rows = workspace};
  carnot_executor_parallel(executor, run.s->part_count, deform_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(deform_conv_f32, .anchor = CARNOT_OP_DEFORM_CONV, .strided_outputs = true,
                   .reject = deform_reject, .prepare = deform_prepare, .validate = deform_validate,
                   .uses_input = deform_uses_input, .configure = deform_configure,
                   .run = deform_run_all);
