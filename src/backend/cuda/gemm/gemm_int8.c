// GEMM and NHWC convolution of 8-bit integers on tensor cores, with their whole epilogue: one
// tactic per tile size and load; the builder times them.
#include <stdlib.h>

#include "backend/cuda/common/sliding_window.h"
#include "backend/cuda/gemm/gemm_multistage.h"
#include "backend/cuda/quantize/int8_region.h"
#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/pad_channels_params.h"
#include "tactic/problem/conv.h"

enum { kDepth = 128, kMaxChannels = 1 << 16, kMaxTaps = 1 << 10, kMaxColumns = 1 << 24 };

typedef struct int8_config {
  carnot_cuda_multistage_tile tile;
  int load;  // bytes of x at a time
  carnot_cuda_kernel_id u8, i8;
} int8_config;

// Stored in engines. A GEMM is a convolution of one tap over images of one row.
typedef struct int8_params {
  carnot_sliding_window window;
  int64_t channels, filters;
  int32_t is_conv, reserved;
  carnot_cuda_int8_region region;
} int8_params;

typedef struct int8_state {
  CUfunction function, pad;  // pad: NULL where x is loaded as it is
  carnot_cuda_gemm_int8_params params;
  carnot_cuda_pad_channels_params pad_params;
  int64_t grid[3];
  size_t shared_bytes;
} int8_state;
_Static_assert(sizeof(int8_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t taps_of(const int8_params* p) {
  return p->is_conv ? p->window.kernel[0] * (p->window.rank == 2 ? p->window.kernel[1] : 1) : 1;
}
// Of a pixel as the kernel reads it.
static int64_t padded_channels(const int8_params* p) { return (p->channels + 3) & ~(int64_t)3; }
static int64_t depth_of(const int8_params* p) { return padded_channels(p) * taps_of(p); }
static int64_t pitch_of(const int8_params* p) { return (depth_of(p) + 15) & ~(int64_t)15; }

// ---- build ----

static const char* read_conv(const carnot_problem* problem, const carnot_operand_desc* x,
                             const carnot_operand_desc* w, uint32_t anchor, int8_params* out,
                             carnot_quantized_shape* shape, char* reason, size_t size) {
  if (x->rank != 3 && x->rank != 4)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 and 4", x->rank);
  carnot_conv_problem conv = {.node = &problem->region->nodes[anchor], .anchor = anchor};
  const char* why = carnot_conv_problem_sizes(x, w, &conv, reason, size);
  if (why) return why;
  if (conv.group != 1) return "groups";
  *out = (int8_params){
      .window = conv.window, .channels = conv.channels, .filters = conv.filters, .is_conv = true};
  if (conv.channels < 1 || conv.filters < 1 || conv.channels > kMaxChannels ||
      conv.filters > kMaxChannels || taps_of(out) > kMaxTaps)
    return carnot_cuda_reject_reason(reason, size, "%lld channels to %lld, %lld taps",
                                     (long long)conv.channels, (long long)conv.filters,
                                     (long long)taps_of(out));
  *shape = (carnot_quantized_shape){0, out->filters, out->channels * taps_of(out)};
  return NULL;
}

static const char* read_gemm(const carnot_operand_desc* x, const carnot_operand_desc* w,
                             const carnot_plan_node* node, int8_params* out,
                             carnot_quantized_shape* shape, char* reason, size_t size) {
  const carnot_op_row* row = carnot_op_get(node->op);
  if (x->rank < 1 || w->rank != 2) return "weights of other than two dimensions";
  if (carnot_attr_int(row, &node->attrs, "transA")) return "the first operand is transposed";
  const bool trans = carnot_attr_int(row, &node->attrs, "transB") != 0;
  *out = (int8_params){.channels = w->dims[trans], .filters = w->dims[!trans]};
  if (out->channels < 1 || out->filters < 1 || out->filters > kMaxColumns ||
      out->channels > kMaxColumns || x->dims[x->rank - 1] != out->channels)
    return carnot_cuda_reject_reason(reason, size, "rows of %lld meet weights of [%lld,%lld]",
                                     (long long)x->dims[x->rank - 1], (long long)w->dims[0],
                                     (long long)w->dims[1]);
  *shape = (carnot_quantized_shape){trans ? 0 : 1, out->filters, out->channels};
  return NULL;
}

static const char* read_problem(const carnot_problem* problem, carnot_quantized_region* view,
                                int8_params* out, carnot_quantized_shape* shape, char* reason,
                                size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node || node->op == CARNOT_OP_CONV_TRANSPOSE) return "";
  const uint32_t inputs = problem->input_count;
  const carnot_quantized_operand x = carnot_quantized_operand_of(problem->region, anchor, 0,
                                                                 inputs),
                                 w = carnot_quantized_operand_of(problem->region, anchor, 1,
                                                                 inputs);
  if (x.value == CARNOT_PLAN_NONE || w.value == CARNOT_PLAN_NONE || w.scale == CARNOT_PLAN_NONE)
    return "the operands are not both quantized";
  const carnot_operand_desc *xt = &problem->inputs[x.value], *wt = &problem->inputs[w.value];
  if (!carnot_is_known(wt)) return "the weights are not constant";
  const bool conv = node->op == CARNOT_OP_CONV;
  const char* why = conv ? read_conv(problem, xt, wt, anchor, out, shape, reason, size)
                         : read_gemm(xt, wt, node, out, shape, reason, size);
  if (why) return why;
  const int channel_axis = conv ? problem->outputs[0].rank - 1 : 1;
  return carnot_cuda_int8_region_read(problem, channel_axis, shape, view, &out->region, reason,
                                      size);
}

static int64_t rows_of(const carnot_operand_desc* y, bool conv) {
  int64_t rows = 1;
  for (int d = 0; d < y->rank; d++)
    if (d != (conv ? 1 : y->rank - 1)) rows *= y->dims[d];
  return rows;
}

static const char* int8_reject(carnot_problem* problem, char* reason, size_t size) {
  const int8_config* config = problem->tactic->config;
  int8_params p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = read_problem(problem, &view, &p, &shape, reason, size);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  if (p.filters % 8)
    return carnot_cuda_reject_reason(reason, size, "%lld output channels, takes eights",
                                     (long long)p.filters);
  const int load = p.channels % 16 == 0 ? 16 : p.channels % 8 == 0 ? 8 : 4;
  if (config->load != load)
    return carnot_cuda_reject_reason(reason, size, "%lld channels are loaded by %d bytes",
                                     (long long)p.channels, load);
  // One tile serves every size.
  const bool serves_all = config->tile.rows == 64 && config->tile.columns == 32;
  if (!serves_all)
    why = carnot_cuda_multistage_reject(&config->tile, rows_of(&problem->outputs[0], p.is_conv),
                                        p.filters, reason, size);
  if (!why)
    carnot_cuda_int8_region_want(problem, &p.region,
                                 p.is_conv ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR);
  return why;
}

// Weights as [filters, taps, padded channels], rows |pitch| bytes apart.
static void pack(const int8_params* p, const carnot_quantized_shape* shape, const int8_t* from,
                 int8_t* to) {
  const int64_t taps = taps_of(p), padded = padded_channels(p), pitch = pitch_of(p);
  const bool trans = shape->axis == 0;
  for (int64_t n = 0; n < p->filters; n++)
    for (int64_t c = 0; c < p->channels; c++)
      for (int64_t t = 0; t < taps; t++)
        to[n * pitch + t * padded + c] =
            trans ? from[(n * p->channels + c) * taps + t] : from[c * p->filters + n];
}

static carnot_status* int8_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *centered, *packed;
  char reason[256];
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(int8_params), "parameters", &params));
  int8_params* p = params;
  const char* why = read_problem(problem, &view, p, &shape, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const size_t bytes = (size_t)(p->filters * pitch_of(p));
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &packed));
  CARNOT_TRY(
      carnot_calloc((size_t)(p->filters * shape.depth), 1, "weights before packing", &centered));
  carnot_status* status =
      carnot_cuda_int8_region_prepare(problem, &view, &p->region, &shape, centered, out);
  memset(packed, 0, bytes);
  if (!status) pack(p, &shape, centered, packed);
  free(centered);
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].packing = "krsc s8";
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].data = packed;
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].bytes = bytes;
  out->params = params;
  out->param_bytes = sizeof(int8_params);
  return status;
}

// ---- run ----

static carnot_status* int8_validate(const carnot_step_view* step) {
  const int8_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(int8_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(int8_params));
  CARNOT_CHECK(p->channels >= 1 && p->channels <= kMaxColumns && p->filters >= 1 &&
                   p->filters <= kMaxColumns && p->filters % 8 == 0,
               INVALID_MODEL, "%lld channels to %lld", (long long)p->channels,
               (long long)p->filters);
  if (p->is_conv) CARNOT_TRY(carnot_cuda_int8_window_check(&p->window));
  return carnot_cuda_int8_region_validate(&p->region, step, p->filters,
                                          (size_t)(p->filters * pitch_of(p)));
}

static bool int8_uses_input(const carnot_step_view* step, uint32_t input) {
  const int8_params* p = step->params;
  return (int64_t)input == p->region.x || (int64_t)input == p->region.residual;
}

static carnot_status* set_conv(const int8_params* p, const carnot_operand* x,
                               const carnot_operand* y, carnot_cuda_gemm_tile_params* t) {
  const int rank = p->window.rank;
  CARNOT_CHECK(x->rank == rank + 2 && y->rank == x->rank && x->dims[0] == y->dims[0] &&
                   x->dims[1] == p->channels && y->dims[1] == p->filters,
               INVALID_ARGUMENT, "%lld channels to %lld, the packed weights have %lld and %lld",
               (long long)x->dims[1], (long long)y->dims[1], (long long)p->channels,
               (long long)p->filters);
  carnot_sliding_window w = p->window;
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  for (int d = 2; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] <= INT32_MAX / 4 && y->dims[d] <= INT32_MAX / 4 &&
                     y->dims[d] * w.strides[d - 2] <= INT32_MAX / 4,
                 UNSUPPORTED, "dimension %d is %lld", d, (long long)x->dims[d]);
  const int64_t pixels = carnot_dims_count(y->dims, y->rank) / carnot_max_i64(1, p->filters);
  *t = (carnot_cuda_gemm_tile_params){.rows = pixels,
                                      .in_rows = rank == 2 ? (int)x->dims[2] : 1,
                                      .in_columns = (int)x->dims[rank + 1],
                                      .out_rows = rank == 2 ? (int)y->dims[2] : 1,
                                      .out_columns = (int)y->dims[rank + 1],
                                      .kernel_columns = (int)w.kernel[rank - 1],
                                      .step = {1, (int)w.strides[rank - 1]},
                                      .dilation = {1, (int)w.dilations[rank - 1]},
                                      .begin = {0, (int)w.begin[rank - 1]}};
  if (rank == 2)
    t->step[0] = (int)w.strides[0], t->dilation[0] = (int)w.dilations[0],
    t->begin[0] = (int)w.begin[0];
  return NULL;
}

static carnot_status* set_gemm(const int8_params* p, const carnot_operand* x,
                               const carnot_operand* y, carnot_cuda_gemm_tile_params* t) {
  CARNOT_CHECK(
      x->rank >= 1 && y->rank >= 1 && x->dims[x->rank - 1] == p->channels &&
          y->dims[y->rank - 1] == p->filters &&
          carnot_dims_count(x->dims, x->rank - 1) == carnot_dims_count(y->dims, y->rank - 1),
      INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]", (long long)p->channels,
      (long long)p->filters);
  const int64_t rows = carnot_dims_count(x->dims, x->rank - 1);
  *t = (carnot_cuda_gemm_tile_params){.rows = rows,
                                      .in_rows = 1,
                                      .in_columns = (int)rows,
                                      .out_rows = 1,
                                      .out_columns = (int)rows,
                                      .kernel_columns = 1,
                                      .step = {1, 1},
                                      .dilation = {1, 1}};
  return NULL;
}

// Rows of x whose length is no multiple of four are padded to the workspace first.
static carnot_status* set_pad(const carnot_step_view* step, const carnot_operand* x, int8_state* s,
                              size_t* out_workspace_bytes) {
  const int8_params* p = step->params;
  s->pad = NULL;
  if (padded_channels(p) == p->channels) return NULL;
  const int64_t rows = carnot_dims_count(x->dims, x->rank) / p->channels;
  s->pad_params = (carnot_cuda_pad_channels_params){.count = rows * padded_channels(p) / 4,
                                                    .channels = (int)p->channels,
                                                    .padded = (int)padded_channels(p)};
  *out_workspace_bytes = (size_t)(rows * padded_channels(p));
  return carnot_cuda_kernel(carnot_cuda_of_step(step), CARNOT_CUDA_KERNEL_pad_channels, &s->pad);
}

static void set_grid(const carnot_cuda* cuda, const carnot_cuda_multistage_tile* tile,
                     int8_state* s) {
  carnot_cuda_gemm_tile_params* t = &s->params.gemm;
  const int64_t down = carnot_ceildiv(t->rows, tile->rows),
                across = carnot_ceildiv(t->filters, tile->columns),
                steps = carnot_ceildiv(t->depth, kDepth);
  t->prefetch = down <= 8;
  s->grid[0] = down * across, s->grid[1] = 1;
  s->grid[2] = s->grid[0] ? carnot_cuda_multistage_splits(cuda, tile, s->grid[0], steps) : 1;
  s->shared_bytes = carnot_cuda_multistage_shared_bytes(tile, carnot_ceildiv(steps, s->grid[2]));
}

static carnot_status* int8_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  const int8_config* config = step->tactic->config;
  const int8_params* p = step->params;
  const carnot_operand *x = &inputs[p->region.x], *y = &outputs[0];
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  int8_state* s = state;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(padded_channels(p) % config->load == 0, INVALID_MODEL,
               "%lld channels, loaded by %d bytes", (long long)p->channels, config->load);
  carnot_cuda_gemm_tile_params* t = &s->params.gemm;
  CARNOT_TRY((p->is_conv ? set_conv : set_gemm)(p, x, y, t));
  CARNOT_CHECK(t->rows <= INT32_MAX, UNSUPPORTED, "%lld rows, takes up to 2^31",
               (long long)t->rows);
  CARNOT_TRY(carnot_cuda_int8_region_configure(&p->region, p->is_conv, inputs, y));
  t->filters = (int)p->filters, t->depth = (int)depth_of(p);
  t->channels = t->pixel = (int)padded_channels(p);
  s->params.w_pitch = (int)pitch_of(p);
  s->params.outside = (unsigned)(p->region.x_zero & 255) * 0x01010101u;
  CARNOT_TRY(set_pad(step, x, s, out_workspace_bytes));
  set_grid(cuda, &config->tile, s);
  CARNOT_TRY(carnot_cuda_kernel(cuda, p->region.x_signed ? config->i8 : config->u8, &s->function));
  return carnot_cuda_multistage_allow_shared(cuda, s->function, &config->tile);
}

static carnot_status* int8_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)executor;
  int8_state* s = state;
  const int8_config* config = step->tactic->config;
  const int8_params* p = step->params;
  carnot_cuda_gemm_tile_params* t = &s->params.gemm;
  if (!s->grid[0]) return NULL;
  t->x = inputs[p->region.x].data, t->y = outputs[0].data;
  t->w = step->constants[CARNOT_CUDA_INT8_WEIGHTS];
  s->params.epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs);
  if (s->pad) {
    s->pad_params.x = t->x, s->pad_params.y = workspace, t->x = workspace;
    CARNOT_TRY(carnot_cuda_launch_threads(step, s->pad, s->pad_params.count, &s->pad_params));
  }
  const int64_t cluster[3] = {1, 1, s->grid[2]};
  return carnot_cuda_launch_clusters(step, s->function, s->grid, (unsigned)config->tile.threads,
                                     cluster, s->shared_bytes, &s->params);
}

#define INT8_TACTIC(height, width, stage_count, bytes)                               \
  const carnot_tactic carnot_cuda_gemm_int8_##height##x##width##_##bytes = {         \
      .name = "cuda_gemm_int8_" #height "x" #width "_" #bytes,                       \
      .anchor = CARNOT_OP_COUNT,                                                     \
      .config =                                                                      \
          &(const int8_config){                                                      \
              .tile = {.rows = height,                                               \
                       .columns = width,                                             \
                       .stages = stage_count,                                        \
                       .threads = CARNOT_CUDA_GEMM_MULTISTAGE_THREADS(height)},      \
              .load = bytes,                                                         \
              .u8 = CARNOT_CUDA_KERNEL_gemm_int8_##height##x##width##_##bytes##_u8,  \
              .i8 = CARNOT_CUDA_KERNEL_gemm_int8_##height##x##width##_##bytes##_i8}, \
      .numerics = CARNOT_NUMERICS_EXACT,                                             \
      .device = true,                                                                \
      .reject = int8_reject,                                                         \
      .prepare = int8_prepare,                                                       \
      .validate = int8_validate,                                                     \
      .uses_input = int8_uses_input,                                                 \
      .configure = int8_configure,                                                   \
      .run = int8_run,                                                               \
      .work = carnot_cuda_int8_region_work};
CARNOT_CUDA_GEMM_INT8_SIZES(INT8_TACTIC)
