// Runs a transposed convolution: a phase is a convolution of stride 1. Where its rows are long,
// each is one into the result; else the phase is one into the workspace, whose pixels are then
// copied.
#include "backend/cpu/conv/conv_transpose.h"

// Weights are read once for each row: shorter ones take longer than the copy. More parts than
// kMostRowParts would not fill more threads.
enum { kLeastRow = 24, kMostRowParts = 32 };

// The size of an operand along axis |i| of three, and the distance of its elements.
static int64_t size_of(const carnot_operand* operand, int i) {
  int d = operand->rank - CARNOT_TRANSPOSED_AXES + i;
  return d < 2 ? 1 : operand->dims[d];
}
static int64_t stride_of(const carnot_operand* operand, int i) {
  int d = operand->rank - CARNOT_TRANSPOSED_AXES + i;
  return d < 2 ? 0 : operand->strides[d];
}

// Outputs of a phase along an axis that begins at |at|.
static int64_t count_of(int64_t size, int64_t at, int64_t stride) {
  return at < size ? (size - at - 1) / stride + 1 : 0;
}

static bool is_direct(const carnot_transposed_params* p, const carnot_operand* y) {
  return !carnot_packed_weights_split((carnot_weights_type)p->weights) &&
         count_of(size_of(y, 2), 0, p->window.strides[2]) >= kLeastRow;
}

typedef struct phase_run {
  const carnot_cpu_kernels* kernels;
  const carnot_transposed_params* params;
  const carnot_operand *x, *y;
  int64_t at[CARNOT_TRANSPOSED_AXES], count[CARNOT_TRANSPOSED_AXES];  // first outputs, how many
  carnot_work_partition partition;                                    // of a group
  carnot_conv2d_bf16_tiles call;  // of group 0; other kernels take its |conv|
  const float* bias;
  size_t weight_bytes;  // of a group
  size_t scratch;       // bytes of a part
} phase_run;

static bool by_tiles(const carnot_transposed_params* p) {
  return p->weights == CARNOT_WEIGHTS_BF16_TILES;
}

static int64_t element_bytes(const carnot_operand* operand) {
  return carnot_dtype_bits(operand->format.dtype) / 8;
}

static carnot_work_partition partition_of(const carnot_step_view* step, const phase_run* run) {
  const carnot_conv2d_f32* conv = &run->call.conv;
  const int64_t pixels = conv->n * run->count[0] * conv->p * conv->q,
                k = conv->c * conv->r * conv->s;
  if (by_tiles(run->params)) return carnot_conv_tiles_partition(step->threads, &run->call);
  return carnot_packed_weights_split((carnot_weights_type)run->params->weights)
             ? carnot_work_partition_make_tall(step->threads, pixels, conv->k, k, conv->q)
             : carnot_work_partition_make(step->tactic->isa, step->threads, pixels, conv->k, k);
}

static void set_conv(const carnot_step_view* step, phase_run* run, int64_t phase) {
  const carnot_transposed_params* p = run->params;
  const carnot_operand* x = run->x;
  carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES];
  int64_t in[CARNOT_TRANSPOSED_AXES];
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++) in[i] = size_of(x, i);
  carnot_transposed_phases_of(p, phase, axes);
  run->call = (carnot_conv2d_bf16_tiles){.conv = carnot_transposed_conv(p, axes, in, run->count),
                                         .src_is_bf16 = x->format.dtype == CARNOT_DTYPE_BF16,
                                         .dst_is_bf16 = run->y->format.dtype == CARNOT_DTYPE_BF16};
  carnot_conv2d_f32* conv = &run->call.conv;
  conv->n = x->dims[0];
  conv->src = x->data;
  conv->src_n = x->strides[0], conv->src_h = stride_of(x, 1), conv->src_w = stride_of(x, 2);
  conv->weights = (const char*)step->constants[0] + carnot_transposed_offset(p, 0, phase);
  conv->zeros = carnot_conv_zeros;
  conv->ld = p->filters;
  conv->epilogue = (carnot_epilogue_f32){
      .activation = (carnot_kernel_activation)p->activation, .a = p->a, .b = p->b};
  if (x->rank == 2 + CARNOT_TRANSPOSED_AXES)
    conv->depth = (carnot_conv_depth){.taps = axes[0].count,
                                      .in = size_of(x, 0),
                                      .out = run->count[0],
                                      .stride = 1,
                                      .dilation = 1,
                                      .pad = axes[0].count - 1 - axes[0].shift,
                                      .src = stride_of(x, 0)};
  run->weight_bytes = carnot_packed_weights_bytes((carnot_weights_type)p->weights,
                                                  carnot_transposed_weights(p, axes));
}

// The first outputs of a phase, how many it has, its convolution. False where it has none.
static bool set_phase(const carnot_step_view* step, phase_run* run, int64_t phase) {
  const int64_t* strides = run->params->window.strides;
  int64_t rest = phase, pixels = run->x->dims[0];
  for (int i = CARNOT_TRANSPOSED_AXES - 1; i >= 0; rest /= strides[i], i--) {
    run->at[i] = rest % strides[i];
    run->count[i] = count_of(size_of(run->y, i), run->at[i], strides[i]);
    pixels *= run->count[i];
  }
  if (pixels) set_conv(step, run, phase);
  return pixels > 0;
}

// The phase's pixels, at most, before the parts' scratch.
static size_t pixel_bytes(const carnot_transposed_params* p, const carnot_operand* y) {
  int64_t pixels = y->dims[0];  // the first phase has the most
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++)
    pixels *= count_of(size_of(y, i), 0, p->window.strides[i]);
  return carnot_align_up((size_t)(pixels * p->filters * element_bytes(y)), 64);
}

static size_t scratch_of(const phase_run* run) {
  return carnot_align_up((size_t)carnot_conv2d_bf16_tiles_scratch(&run->call), 64);
}

// Output rows of all planes and images, and the parts in which they are computed. By tiles a part
// copies pixels under its rows into a scratch of its own.
static int64_t row_count(const carnot_operand* y) {
  return y->dims[0] * size_of(y, 0) * size_of(y, 1);
}
static int64_t row_parts(const carnot_transposed_params* p, const carnot_operand* y) {
  return by_tiles(p) ? carnot_min_i64(row_count(y), kMostRowParts) : row_count(y);
}

// Bytes of scratch of all parts that compute |run|'s phase, or one row of it at a time.
static size_t scratch_of_parts(const carnot_step_view* step, phase_run* run, bool direct) {
  if (!direct) {
    const carnot_work_partition partition = partition_of(step, run);
    return (size_t)(carnot_work_partition_count(&partition) * run->params->group) * scratch_of(run);
  }
  run->call.conv.n = run->call.conv.p = 1;
  return (size_t)row_parts(run->params, run->y) * scratch_of(run);
}

carnot_status* carnot_transposed_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  (void)state;
  const carnot_transposed_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(
      carnot_cpu_is_f32_value(step, x) && carnot_cpu_is_f32_value(step, y) && x->rank >= 3 &&
          x->rank <= 2 + CARNOT_TRANSPOSED_AXES && y->rank == x->rank && x->dims[0] == y->dims[0] &&
          x->dims[1] == p->channels && y->dims[1] == p->filters &&
          (x->strides[1] == 1 || x->dims[1] == 1) && (y->strides[1] == 1 || y->dims[1] == 1),
      INVALID_ARGUMENT, "operands do not fit packed weights of %lld channels and %lld filters",
      (long long)p->channels, (long long)p->filters);
  phase_run run = {.params = p, .x = x, .y = y};
  size_t most = 0;
  for (int64_t phase = 0; by_tiles(p) && phase < carnot_transposed_phase_count(p); phase++) {
    if (!set_phase(step, &run, phase)) continue;
    const size_t bytes = scratch_of_parts(step, &run, is_direct(p, y));
    CARNOT_CHECK(carnot_conv2d_bf16_tiles_fits(&run.call), INVALID_MODEL,
                 "the pixels under the window do not fit in L2");
    if (bytes > most) most = bytes;
  }
  *out_workspace_bytes = most + (is_direct(p, y) ? 0 : pixel_bytes(p, y));
  return NULL;
}

// The element of the result at which row |row| of all planes and images of the phase begins.
static int64_t row_of_result(const phase_run* run, int64_t row) {
  const carnot_operand* y = run->y;
  const int64_t* strides = run->params->window.strides;
  const int64_t plane = row / run->count[1];
  return plane / run->count[0] * y->strides[0] +
         (run->at[0] + plane % run->count[0] * strides[0]) * stride_of(y, 0) +
         (run->at[1] + row % run->count[1] * strides[1]) * stride_of(y, 1) +
         run->at[2] * stride_of(y, 2);
}

static int64_t distance_of_pixels(const phase_run* run) {
  return run->params->window.strides[2] * stride_of(run->y, 2);
}

// Pixels [m0, m1) and channels [begin, end) of the workspace to the result.
static void copy_pixels(const phase_run* run, int64_t m0, int64_t m1, int64_t begin, int64_t end) {
  const int64_t bytes = element_bytes(run->y), q_count = run->count[2];
  const int64_t right = distance_of_pixels(run) * bytes, ld = run->call.conv.ld * bytes;
  const char* from = (const char*)run->call.conv.dst + m0 * ld + begin * bytes;
  for (int64_t m = m0; m < m1;) {
    char* to = (char*)carnot_conv_element(run->y, row_of_result(run, m / q_count)) +
               m % q_count * right + begin * bytes;
    const int64_t last = carnot_min_i64(m1, (m / q_count + 1) * q_count);
    for (; m < last; m++, to += right, from += ld)
      memcpy(to, from, (size_t)((end - begin) * bytes));
  }
}

typedef struct part_of_group {
  int64_t m0, m1, n0, n1;  // pixels and filters
} part_of_group;

// Of one group: from element |src| of the input to |dst|, which is that of group 0.
static void run_group(const phase_run* run, int64_t group, int64_t src, float* dst, void* scratch,
                      const part_of_group* part) {
  carnot_conv2d_bf16_tiles call = run->call;
  carnot_conv2d_f32* conv = &call.conv;
  call.scratch = scratch;
  conv->src = carnot_conv_element(run->x, src + group * conv->c);
  conv->dst = (float*)(void*)((char*)dst + group * conv->k * element_bytes(run->y));
  conv->weights = (const char*)conv->weights + (size_t)group * run->weight_bytes;
  conv->epilogue.bias = run->bias ? run->bias + group * conv->k : NULL;
  if (by_tiles(run->params))
    run->kernels->conv2d_bf16_tiles(&call, part->m0, part->m1, part->n0, part->n1);
  else
    carnot_packed_weights_conv2d(run->kernels, (carnot_weights_type)run->params->weights)(
        conv, part->m0, part->m1, part->n0, part->n1);
}

static void phase_part(void* argument, int64_t at) {
  const phase_run* run = argument;
  const int64_t each = carnot_work_partition_count(&run->partition), group = at / each,
                first = group * run->call.conv.k;
  part_of_group part;
  carnot_work_partition_part(&run->partition, at % each, &part.m0, &part.m1, &part.n0, &part.n1);
  run_group(run, group, 0, run->call.conv.dst, (char*)run->call.scratch + (size_t)at * run->scratch,
            &part);
  copy_pixels(run, part.m0, part.m1, first + part.n0, first + part.n1);
}

typedef struct rows_run {
  const carnot_step_view* step;
  phase_run run;
  char* scratch;
} rows_run;

// Output row |at|: its phases side by side, each a convolution that gives one row.
static void run_row(const rows_run* rows, int64_t at, int64_t part) {
  const carnot_transposed_params* p = rows->run.params;
  const int64_t* strides = p->window.strides;
  const int64_t h_count = size_of(rows->run.y, 1), z_count = size_of(rows->run.y, 0);
  const int64_t row = at % h_count, plane = at / h_count % z_count;
  const int64_t image = at / h_count / z_count;
  const int64_t above = plane % strides[0] * strides[1] + row % strides[1];
  for (int64_t at_w = 0; at_w < strides[2]; at_w++) {
    phase_run run = rows->run;
    if (!set_phase(rows->step, &run, above * strides[2] + at_w)) continue;
    carnot_conv2d_f32* conv = &run.call.conv;
    conv->n = conv->p = 1;
    if (conv->depth.taps) conv->depth.out = 1, conv->depth.pad -= plane / strides[0];
    conv->pad_h -= row / strides[1];
    conv->ld = distance_of_pixels(&run);
    char* scratch = by_tiles(p)
                        ? rows->scratch + (size_t)carnot_executor_scratch(part) * scratch_of(&run)
                        : NULL;
    const int64_t first = (image * run.count[0] + plane / strides[0]) * run.count[1];
    float* dst = carnot_conv_element(run.y, row_of_result(&run, first + row / strides[1]));
    const part_of_group whole = {0, conv->q, 0, conv->k};
    for (int64_t group = 0; group < p->group; group++)
      run_group(&run, group, image * conv->src_n, dst, scratch, &whole);
  }
}

static void rows_part(void* argument, int64_t part) {
  const rows_run* rows = argument;
  const int64_t count = row_count(rows->run.y), parts = row_parts(rows->run.params, rows->run.y);
  for (int64_t row = part * count / parts; row < (part + 1) * count / parts; row++)
    run_row(rows, row, part);
}

// |run|'s phase, whose pixels and scratch are in |workspace|.
static void run_phase(const carnot_step_view* step, phase_run* run, char* workspace,
                      carnot_executor* executor) {
  run->call.conv.dst = (float*)(void*)workspace;
  run->call.scratch = workspace + pixel_bytes(run->params, run->y);
  run->scratch = by_tiles(run->params) ? scratch_of(run) : 0;
  run->partition = partition_of(step, run);
  carnot_executor_parallel(
      executor, carnot_work_partition_count(&run->partition) * run->params->group, phase_part, run);
}

carnot_status* carnot_transposed_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)state;
  const carnot_transposed_params* p = step->params;
  const carnot_operand* y = &outputs[0];
  rows_run rows = {.step = step,
                   .run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                           .params = p,
                           .x = &inputs[0],
                           .y = y,
                           .bias = p->has_bias ? step->constants[1] : NULL},
                   .scratch = workspace};
  if (is_direct(p, y)) {
    carnot_executor_parallel(executor, row_parts(p, y), rows_part, &rows);
    return NULL;
  }
  for (int64_t phase = 0; phase < carnot_transposed_phase_count(p); phase++)
    if (set_phase(step, &rows.run, phase)) run_phase(step, &rows.run, workspace, executor);
  return NULL;
}
