// Transposed convolution over channels-last float32 or BF16: output pixels of one phase (their
// position modulo the stride) are sums over the same taps, so that every phase is a plain
// convolution of stride 1 with a smaller filter.
//   y[o] = sum_t x[(o + begin - t) / stride] * w[t] over the taps t where it divides;  with t =
//   first + stride * u: o = stride * j + phase,  x index = j + (phase + begin - first) / stride - u
#include "backend/cpu/conv/conv_transpose.h"

#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "tactic/problem/conv.h"

enum { kMaxStride = 8, kLeastSplitChannels = 24, kLeastTileChannels = 16 };

// |w| with axes of one tap in front, up to three.
static carnot_sliding_window with_all_axes(const carnot_sliding_window* w) {
  carnot_sliding_window out = {.rank = CARNOT_TRANSPOSED_AXES, .auto_pad = w->auto_pad};
  for (int i = 0, from = w->rank - CARNOT_TRANSPOSED_AXES; i < CARNOT_TRANSPOSED_AXES;
       i++, from++) {
    out.kernel[i] = from < 0 ? 1 : w->kernel[from];
    out.strides[i] = from < 0 ? 1 : w->strides[from];
    out.dilations[i] = from < 0 ? 1 : w->dilations[from];
    out.begin[i] = from < 0 ? 0 : w->begin[from];
  }
  return out;
}

static const char* check_window(const carnot_sliding_window* w, char* reason, size_t size) {
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++) {
    if (w->dilations[i] != 1) return "the taps are dilated";
    if (w->strides[i] < 1 || w->strides[i] > kMaxStride)
      return carnot_because(reason, size, "stride %lld, takes up to %d", (long long)w->strides[i],
                            kMaxStride);
    if (w->kernel[i] < w->strides[i] || w->kernel[i] > 1 << 10)
      return "the kernel does not cover the stride";
    if (w->begin[i] < 0 || w->begin[i] > 1 << 10) return "the padding is out of range";
  }
  return NULL;
}

// Padding that follows from the output's size, where that is fixed.
static const char* resolve_padding(const carnot_problem* problem, carnot_sliding_window* w) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  bool same = w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER;
  size_t count, extra_count;
  carnot_attr_ints(&node->attrs, "output_shape", &count);
  const int64_t* extra = carnot_attr_ints(&node->attrs, "output_padding", &extra_count);
  for (int i = 0; (same || count) && i < w->rank; i++) {
    int d = i + 2;
    if (d >= x->rank || d >= y->rank || x->min[d] != x->max[d] || x->dims[d] < 1 || y->dims[d] < 1)
      return "the padding follows from sizes that are not fixed";
    int64_t more = extra && extra_count > (size_t)i ? extra[i] : 0;
    carnot_sliding_window_resolve_transposed(w, i, x->dims[d], y->dims[d], more);
  }
  return NULL;
}

const char* carnot_transposed_read(const carnot_problem* problem, carnot_transposed_params* p,
                                   char* reason, size_t size) {
  carnot_conv_problem conv;
  const char* why = carnot_conv_problem_read(problem, &conv, reason, size);
  if (why) return why;
  if (conv.node->op != CARNOT_OP_CONV_TRANSPOSE || conv.casts) return "";
  const carnot_operand_desc *x = &problem->inputs[0], *w = &problem->inputs[conv.weights];
  why = carnot_not_f32_value(problem, x, "the input", 3, 2 + CARNOT_TRANSPOSED_AXES, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(w) || w->rank != x->rank)
    return "the weights are not constant float32";
  *p = (carnot_transposed_params){.window = conv.window,
                                  .group = conv.group,
                                  .channels = conv.channels,
                                  .filters = conv.filters,
                                  .weights = (int32_t)carnot_packed_weights_type(problem->tactic),
                                  .has_bias = conv.bias != CARNOT_PLAN_NONE};
  why = resolve_padding(problem, &p->window);
  p->window = with_all_axes(&p->window);
  if (!why) why = check_window(&p->window, reason, size);
  if (why) return why;
  if (p->group < 1 || x->dims[1] != p->channels || p->channels % p->group ||
      p->channels > CARNOT_CONV_MAX_CHANNELS || p->filters < 1 ||
      p->filters > CARNOT_CONV_MAX_FILTERS)
    return carnot_because(reason, size, "%lld channels, %lld filters, %lld groups",
                          (long long)p->channels, (long long)p->filters, (long long)p->group);
  const carnot_operand_desc* b = p->has_bias ? &problem->inputs[conv.bias] : NULL;
  if (b && (!carnot_is_f32_constant(b) || carnot_tensor_count(b->tensor) != p->filters))
    return "the bias is not constant float32";
  carnot_epilogue_plan epilogue_plan;
  bool has_bias = false;
  why = carnot_epilogue_plan_make(problem, /*anchor=*/0, x->rank - 1, NULL, p->filters, &has_bias,
                                  &epilogue_plan, reason, size);
  if (why) return why;
  if (epilogue_plan.residual >= 0 || epilogue_plan.program.instruction_count)
    return "more than an activation follows the convolution";
  p->activation = epilogue_plan.activation;
  p->a = epilogue_plan.a;
  p->b = epilogue_plan.b;
  return NULL;
}

// Whether the copy of the pixels holds the window of each phase for rows of any size.
static bool windows_fit(const carnot_transposed_params* p) {
  static const int64_t any[CARNOT_TRANSPOSED_AXES] = {1, INT32_MAX, INT32_MAX};
  for (int64_t at = 0; at < carnot_transposed_phase_count(p); at++) {
    carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES];
    carnot_transposed_phases_of(p, at, axes);
    const carnot_conv2d_bf16_tiles call = {.conv = carnot_transposed_conv(p, axes, any, any)};
    if (!carnot_conv2d_bf16_tiles_fits(&call)) return false;
  }
  return true;
}

// Kernels by tile instructions take windows of two dimensions and, of a tap, channels that fill
// half of a tile's depth, by BF16 parts three quarters.
static const char* refuse_tiles(const carnot_transposed_params* p, char* reason, size_t size) {
  const carnot_weights_type type = (carnot_weights_type)p->weights;
  const int64_t channels = p->channels / p->group, filters = p->filters / p->group;
  const int least = type == CARNOT_WEIGHTS_BF16_TILES ? kLeastTileChannels : kLeastSplitChannels;
  if (type == CARNOT_WEIGHTS_F32) return NULL;
  if (p->window.kernel[0] != 1 || p->window.strides[0] != 1 || p->window.begin[0])
    return "a window of three dimensions";
  if (channels < least)
    return carnot_because(reason, size, "%lld channels a tap, takes %d and more",
                          (long long)channels, least);
  if (type != CARNOT_WEIGHTS_BF16_TILES) return NULL;
  if (filters % 16 && p->group > 1)
    return carnot_because(reason, size, "%lld filters a group, takes multiples of 16",
                          (long long)filters);
  return windows_fit(p) ? NULL : "the pixels under the window do not fit in L2";
}

static const char* transposed_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_transposed_params p;
  const char* why = carnot_transposed_read(problem, &p, reason, size);
  if (!why) why = refuse_tiles(&p, reason, size);
  if (!why) {
    const carnot_plan_node* node = &problem->region->nodes[0];
    why = carnot_packed_weights_reject(problem, problem->inputs[node->inputs[1]].tensor,
                                       (carnot_weights_type)p.weights, reason, size);
  }
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

// The taps of a phase, last first, as the weights [M,C,taps] of a convolution.
static void gather_taps(const carnot_transposed_params* p, const float* weights, int64_t group,
                        const carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES], float* out) {
  const carnot_sliding_window* w = &p->window;
  int64_t channels = p->channels / p->group, filters = p->filters / p->group;
  int64_t all = w->kernel[0] * w->kernel[1] * w->kernel[2];
  int64_t count = carnot_transposed_weights(p, axes).taps;
  for (int64_t m = 0; m < filters; m++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t u = count - 1; u >= 0; u--) {
        int64_t rest = u, tap = 0, step = 1;
        for (int i = CARNOT_TRANSPOSED_AXES - 1; i >= 0;
             rest /= axes[i].count, step *= w->kernel[i], i--)
          tap += (axes[i].first + w->strides[i] * (rest % axes[i].count)) * step;
        *out++ = weights[((group * channels + c) * filters + m) * all + tap];
      }
}

// Packs the weights of all phases and groups. |taps| has room for those of one.
static carnot_status* pack_phases(const carnot_transposed_params* p, const float* weights,
                                  float* taps, carnot_executor* executor, char* packed) {
  const carnot_weights_type type = (carnot_weights_type)p->weights;
  for (int64_t at = 0; at < carnot_transposed_phase_count(p); at++)
    for (int64_t g = 0; g < p->group; g++) {
      carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES];
      carnot_transposed_phases_of(p, at, axes);
      gather_taps(p, weights, g, axes, taps);
      CARNOT_TRY(carnot_packed_weights_pack_conv(executor, type, carnot_transposed_weights(p, axes),
                                                 taps,
                                                 packed + carnot_transposed_offset(p, g, at)));
    }
  return NULL;
}

static carnot_status* transposed_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  void *params, *packed, *bias, *scratch;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_transposed_params), "parameters", &params));
  carnot_transposed_params* p = params;
  char reason[256];
  const char* why = carnot_transposed_read(problem, p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  const carnot_weights_type type = (carnot_weights_type)p->weights;
  CARNOT_TRY(carnot_arena_try(out->arena, carnot_align_up((size_t)p->filters, 16), sizeof(float),
                              "a bias", &bias));
  CARNOT_TRY(carnot_conv_alloc_weights(
      out,
      type == CARNOT_WEIGHTS_F32          ? "phases k1n16 f32"
      : type == CARNOT_WEIGHTS_BF16_TILES ? "phases k2n16d32 bf16"
                                          : "phases k32n16 bf16x3",
      carnot_transposed_offset(p, 0, carnot_transposed_phase_count(p)), &packed));
  // One phase has all weights at most.
  const carnot_tensor* weights = problem->inputs[node->inputs[1]].tensor;
  CARNOT_TRY(carnot_calloc((size_t)carnot_tensor_count(weights), sizeof(float),
                           "weights before packing", &scratch));
  carnot_status* status = pack_phases(p, weights->data, scratch, out->executor, packed);
  free(scratch);
  CARNOT_TRY(status);
  if (p->has_bias)
    memcpy(bias, problem->inputs[node->inputs[2]].tensor->data, (size_t)p->filters * sizeof(float));
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->constant_count = 2;
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = carnot_align_up((size_t)p->filters, 16) * sizeof(float);
  out->packed_inputs = (uint64_t)1 << node->inputs[1];
  if (p->has_bias) out->packed_inputs |= (uint64_t)1 << node->inputs[2];
  return NULL;
}

carnot_status* carnot_transposed_check_params(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_transposed_params) && step->constant_count == 2 &&
                   step->input_count >= 2 && step->output_count == 1,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(carnot_transposed_params));
  const carnot_transposed_params* p = step->params;
  CARNOT_CHECK(p->group >= 1 && p->channels >= 1 && p->channels <= CARNOT_CONV_MAX_CHANNELS &&
                   p->filters >= 1 && p->filters <= CARNOT_CONV_MAX_FILTERS &&
                   p->channels % p->group == 0 && p->filters % p->group == 0 &&
                   p->activation >= 0 && p->activation < CARNOT_KERNEL_ACTIVATION_COUNT,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups", (long long)p->channels,
               (long long)p->filters, (long long)p->group);
  return NULL;
}

static carnot_status* transposed_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_transposed_check_params(step));
  const carnot_transposed_params* p = step->params;
  char reason[256];
  const char* why = check_window(&p->window, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the window: %s", why);
  why = refuse_tiles(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the window: %s", why);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(step->tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(step->tactic));
  CARNOT_CHECK(
      step->constant_bytes[0] == carnot_transposed_offset(p, 0, carnot_transposed_phase_count(p)) &&
          step->constant_bytes[1] >= (size_t)p->filters * sizeof(float),
      INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
      step->constant_bytes[1]);
  return NULL;
}

static bool transposed_uses_input(const carnot_step_view* step, uint32_t input) {
  return input == 0 || step->region->nodes[0].op != CARNOT_OP_CONV_TRANSPOSE;
}

static void transposed_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *x = &problem->inputs[0],
                            *w = &problem->inputs[problem->region->nodes[0].inputs[1]],
                            *y = &problem->outputs[0];
  double in = (double)carnot_dims_count(x->dims, x->rank),
         weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * in / (double)carnot_max_i64(1, x->dims[1]) * weights;
  *out_bytes = 4 * (in + weights + (double)carnot_dims_count(y->dims, y->rank));
}

#define TRANSPOSED_TACTIC                                                                   \
  .anchor = CARNOT_OP_CONV_TRANSPOSE, .strided_outputs = true, .reject = transposed_reject, \
  .prepare = transposed_prepare, .validate = transposed_validate,                           \
  .uses_input = transposed_uses_input, .configure = carnot_transposed_configure,            \
  .run = carnot_transposed_run, .work = transposed_work
CARNOT_CPU_TACTICS(conv_transpose_f32, TRANSPOSED_TACTIC);
CARNOT_CPU_SPLIT_TACTICS(conv_transpose, TRANSPOSED_TACTIC);
CARNOT_CPU_TACTIC(conv_transpose_bf16_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, TRANSPOSED_TACTIC);
