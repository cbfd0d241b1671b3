// Runs a transposed convolution: a phase is a convolution of stride 1. Where its rows are long,
// each is one into the result; else the phase is one into the workspace, whose pixels are then
// copied.
#include "backend/cpu/conv/conv_transpose.h"

// Weights are read once for each row: shorter ones take longer than the copy.
enum { kLeastRow = 24 };

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
  return p->weights == CARNOT_WEIGHTS_F32 &&
         count_of(size_of(y, 2), 0, p->window.strides[2]) >= kLeastRow;
}

carnot_status* carnot_transposed_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  (void)state;
  const carnot_transposed_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(
      x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 && x->rank >= 3 &&
          x->rank <= 2 + CARNOT_TRANSPOSED_AXES && y->rank == x->rank && x->dims[0] == y->dims[0] &&
          x->dims[1] == p->channels && y->dims[1] == p->filters &&
          (x->strides[1] == 1 || x->dims[1] == 1) && (y->strides[1] == 1 || y->dims[1] == 1),
      INVALID_ARGUMENT, "operands do not fit packed weights of %lld channels and %lld filters",
      (long long)p->channels, (long long)p->filters);
  *out_workspace_bytes = 0;
  if (is_direct(p, y)) return NULL;
  // The first phase has the most pixels.
  int64_t pixels = x->dims[0];
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++)
    pixels *= count_of(size_of(y, i), 0, p->window.strides[i]);
  *out_workspace_bytes = (size_t)(pixels * p->filters) * sizeof(float);
  return NULL;
}

typedef struct phase_run {
  const carnot_cpu_kernels* kernels;
  const carnot_transposed_params* params;
  const carnot_operand *x, *y;
  int64_t at[CARNOT_TRANSPOSED_AXES], count[CARNOT_TRANSPOSED_AXES];  // first outputs, how many
  carnot_work_partition partition;
  carnot_conv2d_f32 conv;  // of group 0
  const float* bias;
  size_t weight_bytes;  // of a group
} phase_run;

static void set_conv(const carnot_step_view* step, phase_run* run, int64_t phase,
                     float* workspace) {
  const carnot_transposed_params* p = run->params;
  const carnot_operand* x = run->x;
  carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES];
  carnot_transposed_phases_of(p, phase, axes);
  run->conv = (carnot_conv2d_f32){
      .n = x->dims[0],
      .h = size_of(x, 1),
      .w = size_of(x, 2),
      .c = p->channels / p->group,
      .p = run->count[1],
      .q = run->count[2],
      .k = p->filters / p->group,
      .r = axes[1].count,
      .s = axes[2].count,
      .stride_h = 1,
      .stride_w = 1,
      .dilation_h = 1,
      .dilation_w = 1,
      .pad_h = axes[1].count - 1 - axes[1].shift,
      .pad_w = axes[2].count - 1 - axes[2].shift,
      .src = x->data,
      .src_n = x->strides[0],
      .src_h = stride_of(x, 1),
      .src_w = stride_of(x, 2),
      .weights = (const char*)step->constants[0] + carnot_transposed_offset(p, 0, phase),
      .zeros = carnot_conv_zeros,
      .dst = workspace,
      .ld = p->filters,
      .epilogue = {.activation = (carnot_kernel_activation)p->activation, .a = p->a, .b = p->b}};
  if (x->rank == 2 + CARNOT_TRANSPOSED_AXES)
    run->conv.depth = (carnot_conv_depth){.taps = axes[0].count,
                                          .in = size_of(x, 0),
                                          .out = run->count[0],
                                          .stride = 1,
                                          .dilation = 1,
                                          .pad = axes[0].count - 1 - axes[0].shift,
                                          .src = stride_of(x, 0)};
  run->weight_bytes = carnot_packed_weights_bytes((carnot_weights_type)p->weights,
                                                  carnot_transposed_weights(p, axes));
}

// Where row |row| of all planes and images of the phase is in the result.
static float* row_of_result(const phase_run* run, int64_t row) {
  const carnot_operand* y = run->y;
  const int64_t* strides = run->params->window.strides;
  const int64_t plane = row / run->count[1];
  return (float*)y->data + plane / run->count[0] * y->strides[0] +
         (run->at[0] + plane % run->count[0] * strides[0]) * stride_of(y, 0) +
         (run->at[1] + row % run->count[1] * strides[1]) * stride_of(y, 1) +
         run->at[2] * stride_of(y, 2);
}

static int64_t distance_of_pixels(const phase_run* run) {
  return run->params->window.strides[2] * stride_of(run->y, 2);
}

// Pixels [m0, m1) and channels [begin, end) of the workspace to the result.
static void copy_pixels(const phase_run* run, int64_t m0, int64_t m1, int64_t begin, int64_t end) {
  const int64_t q_count = run->count[2], right = distance_of_pixels(run);
  for (int64_t m = m0; m < m1;) {
    float* to = row_of_result(run, m / q_count) + m % q_count * right + begin;
    const int64_t last = carnot_min_i64(m1, (m / q_count + 1) * q_count);
    for (; m < last; m++, to += right)
      memcpy(to, run->conv.dst + m * run->conv.ld + begin, (size_t)(end - begin) * sizeof(float));
  }
}

static void phase_part(void* argument, int64_t part) {
  const phase_run* run = argument;
  const int64_t each = carnot_work_partition_count(&run->partition), group = part / each;
  carnot_conv2d_f32 conv = run->conv;
  conv.src += group * conv.c;
  conv.dst += group * conv.k;
  conv.weights = (const char*)conv.weights + (size_t)group * run->weight_bytes;
  conv.epilogue.bias = run->bias ? run->bias + group * conv.k : NULL;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->partition, part % each, &m0, &m1, &n0, &n1);
  carnot_packed_weights_conv2d(run->kernels, (carnot_weights_type)run->params->weights)(&conv, m0,
                                                                                        m1, n0, n1);
  copy_pixels(run, m0, m1, group * conv.k + n0, group * conv.k + n1);
}

// The first outputs of a phase, how many it has, its convolution. False where it has none.
static bool set_phase(const carnot_step_view* step, phase_run* run, int64_t phase,
                      float* workspace) {
  const int64_t* strides = run->params->window.strides;
  int64_t rest = phase, pixels = run->x->dims[0];
  for (int i = CARNOT_TRANSPOSED_AXES - 1; i >= 0; rest /= strides[i], i--) {
    run->at[i] = rest % strides[i];
    run->count[i] = count_of(size_of(run->y, i), run->at[i], strides[i]);
    pixels *= run->count[i];
  }
  if (pixels) set_conv(step, run, phase, workspace);
  return pixels > 0;
}

typedef struct rows_run {
  const carnot_step_view* step;
  phase_run run;
} rows_run;

// Output row |part| of all planes and images: its phases side by side, each a convolution that
// gives one row.
static void row_part(void* argument, int64_t part) {
  const rows_run* rows = argument;
  const carnot_transposed_params* p = rows->run.params;
  const int64_t* strides = p->window.strides;
  const int64_t h_count = size_of(rows->run.y, 1), z_count = size_of(rows->run.y, 0);
  const int64_t row = part % h_count, plane = part / h_count % z_count;
  const int64_t image = part / h_count / z_count;
  const int64_t above = plane % strides[0] * strides[1] + row % strides[1];
  for (int64_t at_w = 0; at_w < strides[2]; at_w++) {
    phase_run run = rows->run;
    if (!set_phase(rows->step, &run, above * strides[2] + at_w, NULL)) continue;
    carnot_conv2d_f32 conv = run.conv;
    conv.n = conv.p = 1;
    if (conv.depth.taps) conv.depth.out = 1, conv.depth.pad -= plane / strides[0];
    conv.pad_h -= row / strides[1];
    conv.ld = distance_of_pixels(&run);
    const int64_t at = (image * run.count[0] + plane / strides[0]) * run.count[1];
    float* dst = row_of_result(&run, at + row / strides[1]);
    for (int64_t group = 0; group < p->group; group++) {
      conv.src = run.conv.src + image * conv.src_n + group * conv.c;
      conv.weights = (const char*)run.conv.weights + (size_t)group * run.weight_bytes;
      conv.epilogue.bias = run.bias ? run.bias + group * conv.k : NULL;
      conv.dst = dst + group * conv.k;
      run.kernels->conv2d_f32(&conv, 0, conv.q, 0, conv.k);
    }
  }
}

static void run_phase(const carnot_step_view* step, phase_run* run, carnot_executor* executor) {
  const carnot_conv2d_f32* conv = &run->conv;
  const int64_t pixels = conv->n * run->count[0] * conv->p * conv->q,
                k = conv->c * conv->r * conv->s;
  run->partition = carnot_packed_weights_split((carnot_weights_type)run->params->weights)
                       ? carnot_work_partition_make_tall(pixels, conv->k, k, conv->q)
                       : carnot_work_partition_make(step->tactic->isa, pixels, conv->k, k);
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
                           .bias = p->has_bias ? step->constants[1] : NULL}};
  if (is_direct(p, y)) {
    carnot_executor_parallel(executor, y->dims[0] * size_of(y, 0) * size_of(y, 1), row_part, &rows);
    return NULL;
  }
  for (int64_t phase = 0; phase < carnot_transposed_phase_count(p); phase++)
    if (set_phase(step, &rows.run, phase, workspace)) run_phase(step, &rows.run, executor);
  return NULL;
}
