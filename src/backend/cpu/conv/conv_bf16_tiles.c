// Convolution by AMX tiles over channels-last operands, each float32 or BF16 in memory.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

enum { kLeastGroupChannels = 16, kMostGroups = 8 };

// Elements of the filter that are one tap.
static int64_t joined_of(const carnot_conv_params* p) {
  const int x = p->window.rank - 1;
  return carnot_bf16_tiles_joined(p->channels / p->group, p->filters / p->group,
                                  carnot_conv_taps(p) / p->window.kernel[x], p->window.kernel[x],
                                  p->window.dilations[0], p->window.dilations[x]);
}

carnot_packed_weights_shape carnot_conv_tiles_weights_shape(const carnot_conv_params* p) {
  const int64_t columns = p->window.kernel[p->window.rank - 1], joined = joined_of(p);
  return (carnot_packed_weights_shape){
      carnot_bf16_tiles_taps(carnot_conv_taps(p) / columns, columns, joined),
      p->channels / p->group * joined, p->filters / p->group};
}

// Of one group.
static size_t packed_bytes(const carnot_conv_params* p) {
  return carnot_packed_weights_bytes(CARNOT_WEIGHTS_BF16_TILES, carnot_conv_tiles_weights_shape(p));
}

static bool reads_planes(const carnot_conv_params* p) {
  return p->group == 1 && carnot_bf16_tiles_takes_planes(p->channels, joined_of(p));
}

// ---- build ----

carnot_conv2d_bf16_tiles carnot_conv_tiles_call(const carnot_conv_params* p,
                                                const carnot_window_geometry* g) {
  return (carnot_conv2d_bf16_tiles){
      .conv = {CARNOT_WINDOW_FIELDS(g), .c = p->channels / p->group, .k = p->filters / p->group,
               .src_n = g->src_n, .src_h = g->src_h, .src_w = g->src_w, .ld = g->ld},
      .joined = joined_of(p)};
}

// Whether the copy of the pixels holds a window of these channels for rows of any size.
static bool window_fits(const carnot_conv_params* p, bool src_is_bf16) {
  const carnot_window_geometry g = carnot_window_geometry_of_any_size(&p->window, p->channels);
  carnot_conv2d_bf16_tiles call = carnot_conv_tiles_call(p, &g);
  call.src_is_bf16 = src_is_bf16;
  return carnot_conv2d_bf16_tiles_fits(&call);
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_layout given = problem->inputs[0].format.layout;
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (why) return why;
  if (carnot_conv_is_depthwise(&p)) return "the depthwise tactics take depthwise convolutions";
  if (p.window.rank > 2) return "the window has three dimensions";
  if (p.channels / p.group < kLeastGroupChannels && joined_of(&p) == 1)
    return carnot_because(reason, size, "%lld channels a tap, takes %d and more",
                          (long long)(p.channels / p.group), kLeastGroupChannels);
  if (p.group > kMostGroups)
    return carnot_because(reason, size, "%lld groups, takes up to %d", (long long)p.group,
                          kMostGroups);
  if (p.filters / p.group % 16 && p.group > 1)
    return carnot_because(reason, size, "%lld filters a group, takes multiples of 16",
                          (long long)(p.filters / p.group));
  if (!window_fits(&p, problem->inputs[0].format.dtype == CARNOT_DTYPE_BF16))
    return "the pixels under the window do not fit in L2";
  if (reads_planes(&p) && given != CARNOT_LAYOUT_CHANNELS_LAST)
    problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

// Packs the weights of a group, [n,channels,taps], as columns of zeros beyond the filter fill its
// last tap of a row. |padded| and |wide| have room for them before packing.
static void pack_group(const carnot_conv_params* p, const float* weights, float* padded,
                       float* wide, void* packed) {
  const carnot_packed_weights_shape shape = carnot_conv_tiles_weights_shape(p);
  const int64_t columns = p->window.kernel[p->window.rank - 1], joined = joined_of(p),
                filled = joined > columns ? columns : (columns + joined - 1) / joined * joined;
  const int64_t rows = shape.n * (p->channels / p->group) * (carnot_conv_taps(p) / columns);
  for (int64_t i = 0; i < rows; i++)
    memcpy(padded + i * filled, weights + i * columns, (size_t)columns * sizeof(float));
  carnot_pack_conv_k1n16_f32(shape.n, p->channels / p->group, shape.taps * joined, padded, wide);
  carnot_packed_weights_pack(CARNOT_WEIGHTS_BF16_TILES, shape, wide, packed);
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = CARNOT_WEIGHTS_BF16_TILES;
  const carnot_packed_weights_shape shape = carnot_conv_tiles_weights_shape(p);
  const size_t bytes = packed_bytes(p);
  void *packed, *memory;
  CARNOT_TRY(carnot_conv_alloc_weights(out,
                                       carnot_packed_weights_packing(CARNOT_WEIGHTS_BF16_TILES),
                                       bytes * (size_t)p->group, &packed));
  const int64_t depth = shape.taps * shape.depth, wide = carnot_packed_k1n16_count(depth, shape.n);
  CARNOT_TRY(carnot_calloc((size_t)(wide + depth * shape.n), sizeof(float),
                           "weights before packing", &memory));
  const float* weights = carnot_conv_weights(problem)->tensor->data;
  const int64_t each = shape.n * (p->channels / p->group) * carnot_conv_taps(p);
  for (int64_t g = 0; g < p->group; g++)
    pack_group(p, weights + g * each, (float*)memory + wide, memory,
               (char*)packed + (size_t)g * bytes);
  free(memory);
  return NULL;
}

// ---- load and run ----

carnot_status* carnot_conv_tiles_planes(const carnot_conv_params* p, carnot_operand* x,
                                        int64_t* out_src_c) {
  *out_src_c = x->rank >= 3 ? x->strides[1] : 1;
  if (*out_src_c == 1 || !reads_planes(p)) return NULL;
  CARNOT_CHECK(x->strides[x->rank - 1] == 1, INVALID_MODEL,
               "pixels of a row are %lld elements apart, must be side by side",
               (long long)x->strides[x->rank - 1]);
  x->strides[1] = 1;
  return NULL;
}

static carnot_status* conv_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  CARNOT_CHECK(p->channels <= CARNOT_CONV_MAX_CHANNELS && p->weights == CARNOT_WEIGHTS_BF16_TILES,
               INVALID_MODEL, "%lld channels, weights of type %d", (long long)p->channels,
               p->weights);
  CARNOT_CHECK(carnot_conv_taps(p) <= CARNOT_BF16_TILES_MAX_TAPS, INVALID_MODEL,
               "a window of %lld elements, must have up to %d", (long long)carnot_conv_taps(p),
               CARNOT_BF16_TILES_MAX_TAPS);
  CARNOT_CHECK(p->group == 1 || (p->group <= kMostGroups && p->filters / p->group % 16 == 0),
               INVALID_MODEL, "%lld filters in %lld groups", (long long)p->filters,
               (long long)p->group);
  return carnot_conv_check_packed(step, packed_bytes(p) * (size_t)p->group);
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;
  int64_t src_c;
  int64_t scratch;  // of a part
} conv_state;

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* state = memory;
  *out_workspace_bytes = 0;
  const carnot_conv_params* p = step->params;
  const carnot_window_geometry* g = &state->geometry;
  carnot_operand x = inputs[0];
  CARNOT_TRY(carnot_conv_tiles_planes(p, &x, &state->src_c));
  CARNOT_TRY(carnot_conv_configure_from(step, &x, inputs, outputs, &state->geometry));
  carnot_conv2d_bf16_tiles call = carnot_conv_tiles_call(p, g);
  call.src_is_bf16 = inputs[0].format.dtype == CARNOT_DTYPE_BF16;
  CARNOT_CHECK(carnot_conv2d_bf16_tiles_fits(&call), INVALID_MODEL,
               "the pixels under the window do not fit in L2");
  carnot_work_partition* partition = &state->partition;
  *partition = carnot_conv_tiles_partition(step->threads, &call);
  state->scratch = (int64_t)carnot_align_up((size_t)carnot_conv2d_bf16_tiles_scratch(&call), 64);
  *out_workspace_bytes =
      (size_t)(state->scratch * carnot_work_partition_count(partition) * p->group);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const carnot_conv_params* params;
  const conv_state* state;
  const carnot_operand *inputs, *outputs;
  const char* weights;
  const float* bias;
  char* workspace;
} conv_run;

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_conv_params* p = run->params;
  const carnot_epilogue_plan* plan = &p->epilogue_plan;
  const carnot_work_partition* partition = &run->state->partition;
  const int64_t per_group = carnot_work_partition_count(partition), group = part / per_group,
                channels = p->channels / p->group, filters = p->filters / p->group;
  carnot_conv2d_bf16_tiles call = carnot_conv_tiles_call(p, &run->state->geometry);
  call.src_is_bf16 = run->inputs[0].format.dtype == CARNOT_DTYPE_BF16;
  call.dst_is_bf16 = run->outputs[0].format.dtype == CARNOT_DTYPE_BF16;
  call.src_c = run->state->src_c;
  call.conv.src = carnot_conv_element(&run->inputs[0], group * channels);
  call.conv.dst = carnot_conv_element(&run->outputs[0], group * filters);
  call.scratch = run->workspace + carnot_executor_scratch(part) * run->state->scratch;
  call.conv.weights = run->weights + (size_t)group * packed_bytes(p);
  carnot_epilogue_plan_bind(plan, run->inputs, run->bias ? run->bias + group * filters : NULL,
                            &call.conv.epilogue);
  if (plan->residual >= 0) {
    const carnot_operand* residual = &run->inputs[plan->residual];
    call.residual_is_bf16 = residual->format.dtype == CARNOT_DTYPE_BF16;
    call.conv.epilogue.residual = carnot_conv_element(residual, group * filters);
  }
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(partition, part % per_group, &m0, &m1, &n0, &n1);
  run->kernels->conv2d_bf16_tiles(&call, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, plan, run->inputs, run->outputs[0].data, call.conv.ld, m0,
                           m1, group * filters + n0, group * filters + n1);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const carnot_conv_params* p = step->params;
  const conv_state* state = memory;
  conv_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .params = p,
                  .state = state,
                  .inputs = inputs,
                  .outputs = outputs,
                  .weights = step->constants[0],
                  .bias = p->has_bias ? step->constants[1] : NULL,
                  .workspace = workspace};
  carnot_executor_parallel(executor, carnot_work_partition_count(&state->partition) * p->group,
                           conv_part, &run);
  return NULL;
}

static bool conv_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_conv_params* p = step->params;
  return carnot_epilogue_plan_may_share(&p->epilogue_plan, step, input, output);
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 2, out_flops, out_bytes);
}

CARNOT_CPU_TACTIC(conv_bf16_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, .anchor = CARNOT_OP_CONV,
                  .strided_outputs = true, .reject = conv_reject, .prepare = conv_prepare,
                  .validate = conv_validate, .uses_input = carnot_conv_uses_input,
                  .configure = conv_configure, .run = conv_run_all, .may_share = conv_may_share,
                  .work = conv_work);
