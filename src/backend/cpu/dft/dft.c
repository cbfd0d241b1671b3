// DFT and STFT of float32 by fast transforms whose lanes are sequences or frames.
#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"

// Parts are few, since each has a scratch of its own.
enum { kX, kMostLength = 1 << 16, kMostParts = 16 };
enum { kDftLength = 1, kDftAxis = 2, kStftStep = 1, kStftWindow = 2, kStftLength = 3 };

static bool has_input(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count && node->inputs[i] != CARNOT_PLAN_NONE;
}

// The longest transform that the operands allow, or more.
static int64_t most_length(const carnot_problem* problem, uint32_t length_input) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_operand_desc* x = &problem->inputs[kX];
  if (has_input(node, length_input)) {
    const carnot_operand_desc* t = &problem->inputs[node->inputs[length_input]];
    return carnot_is_known(t) ? carnot_load_i64(t->format.dtype, t->tensor->data, 0) : INT64_MAX;
  }
  int64_t most = 0;  // twice as long as a one-sided spectrum
  for (int d = 0; d + 1 < x->rank; d++)
    most = carnot_max_i64(most, x->max[d] < 0 ? INT64_MAX : x->max[d]);
  return most > kMostLength ? most : 2 * most;
}

static const char* reject_op(carnot_problem* problem, uint32_t scalars, uint32_t length_input,
                             char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (problem->region->node_count != 1 || node->op != problem->tactic->anchor) return "";
  const char* why =
      carnot_not_f32(&problem->inputs[kX], "the signal", 2, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  for (uint32_t i = 1; i < node->input_count; i++) {
    if (!has_input(node, i)) continue;
    const carnot_operand_desc* t = &problem->inputs[node->inputs[i]];
    if (scalars >> i & 1 && (!t->is_constant || !carnot_cpu_is_index(t->format.dtype)))
      return carnot_because(reason, size, "input %u is no constant integer", i);
    if (!(scalars >> i & 1) && t->format.dtype != CARNOT_DTYPE_F32)
      return carnot_because(reason, size, "input %u is %s, takes float32", i,
                            carnot_dtype_name(t->format.dtype));
  }
  if (most_length(problem, length_input) > kMostLength)
    return carnot_because(reason, size, "the length may be more than %d", kMostLength);
  problem->inputs[kX].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static const char* dft_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_op(problem, 1u << kDftLength | 1u << kDftAxis, kDftLength, reason, size);
}
static const char* stft_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_op(problem, 1u << kStftStep | 1u << kStftLength, kStftLength, reason, size);
}

static carnot_status* fourier_validate(const carnot_step_view* step) {
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->region->node_count == 1 && node->op == step->tactic->anchor &&
                   step->output_count == 1 && has_input(node, kX) && node->inputs[kX] == kX,
               INVALID_MODEL, "the step is not one %s", carnot_op_get(step->tactic->anchor)->name);
  for (uint32_t i = 0; i < node->input_count; i++)
    CARNOT_CHECK(!has_input(node, i) || node->inputs[i] < step->input_count, INVALID_MODEL,
                 "operand %u is not an input of the step", i);
  return NULL;
}

typedef struct fourier_state {
  carnot_dft_f32 dft;  // all but addresses
  bool inverse;
  int64_t blocks, src_block, dst_block;  // of sequences that lie evenly
  int64_t lanes, lanes_per_part, parts;
  int64_t scratch;  // floats of a part
} fourier_state;

static const carnot_operand* operand(const carnot_step_view* step, const carnot_operand* inputs,
                                     uint32_t i) {
  const carnot_plan_node* node = &step->region->nodes[0];
  return has_input(node, i) ? &inputs[node->inputs[i]] : NULL;
}

static carnot_status* integer_or(const carnot_operand* t, int64_t otherwise, int64_t* out) {
  *out = otherwise;
  if (!t) return NULL;
  CARNOT_CHECK(
      t->data && carnot_cpu_is_index(t->format.dtype) && carnot_dims_count(t->dims, t->rank) == 1,
      INVALID_MODEL, "an operand is no constant integer");
  *out = carnot_cpu_index_at(t, 0);
  return NULL;
}

// Fours first, then small primes: the fewest steps over the numbers.
static void factor(carnot_dft_f32* dft) {
  static const int64_t kFirst[] = {4, 2, 3, 5, 7};
  int64_t rest = dft->n;
  for (size_t i = 0; i < sizeof kFirst / sizeof *kFirst; i++)
    for (; rest % kFirst[i] == 0; rest /= kFirst[i]) dft->radices[dft->radix_count++] = kFirst[i];
  for (int64_t r = 11; rest > 1; r += 2)
    for (; rest % r == 0; rest /= r) dft->radices[dft->radix_count++] = r;
}

// The shape is that of |s|: cuts it into parts and sizes the workspace, which begins with the
// roots.
static carnot_status* cut(fourier_state* s, const carnot_operand* x, const carnot_operand* y,
                          int64_t x_count, int64_t y_count, size_t* out_workspace_bytes) {
  carnot_dft_f32* dft = &s->dft;
  CARNOT_CHECK(dft->n > 0 && dft->n <= kMostLength && (dft->parts == 1 || dft->parts == 2),
               INVALID_ARGUMENT,
               "a transform of length %lld over numbers of %d parts, takes 1 to %d",
               (long long)dft->n, dft->parts, kMostLength);
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   carnot_cpu_is_dense(x) && carnot_cpu_is_dense(y) &&
                   carnot_dims_count(x->dims, x->rank) == x_count &&
                   carnot_dims_count(y->dims, y->rank) == y_count,
               INVALID_ARGUMENT, "the signal and its transform do not fit each other");
  factor(dft);
  const int64_t groups = carnot_ceildiv(s->lanes, CARNOT_DFT_LANES);
  const int64_t wanted = carnot_max_i64(1, kMostParts / carnot_max_i64(1, s->blocks));
  s->lanes_per_part = carnot_ceildiv(groups, wanted) * CARNOT_DFT_LANES;
  s->parts = carnot_min_i64(kMostParts, s->blocks * carnot_ceildiv(s->lanes, s->lanes_per_part));
  s->scratch = carnot_dft_f32_scratch(dft->n);
  *out_workspace_bytes = (size_t)(2 * dft->n + s->parts * s->scratch) * sizeof(float);
  return NULL;
}

static carnot_status* dft_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  fourier_state* s = state;
  const carnot_operand *x = &inputs[kX], *y = &outputs[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_DFT);
  const carnot_attrs* attrs = &step->region->nodes[0].attrs;
  const bool onesided = carnot_attr_int(row, attrs, "onesided") != 0;
  const bool inverse = carnot_attr_int(row, attrs, "inverse") != 0, to_real = onesided && inverse;
  int axis, last = x->rank - 1;
  int64_t wanted_axis, n;
  CARNOT_TRY(integer_or(operand(step, inputs, kDftAxis), -2, &wanted_axis));
  CARNOT_TRY(carnot_axis(wanted_axis, x->rank, "axis", &axis));
  CARNOT_CHECK(axis != last, INVALID_MODEL, "axis %d holds the parts of a number", axis);
  const int64_t size = x->dims[axis], parts = x->dims[last];
  CARNOT_TRY(integer_or(operand(step, inputs, kDftLength), to_real ? 2 * (size - 1) : size, &n));
  const int64_t inner = carnot_dims_count(x->dims + axis + 1, last - axis - 1),
                outer = carnot_dims_count(x->dims, axis), dst_parts = to_real ? 1 : 2,
                bins = onesided && !inverse ? n / 2 + 1 : n;
  *s = (fourier_state){.inverse = inverse, .blocks = outer, .lanes = inner};
  s->dft = (carnot_dft_f32){.n = n,
                            .size = carnot_min_i64(size, to_real ? n / 2 + 1 : n),
                            .src_lane = parts,
                            .src_step = inner * parts,
                            .parts = (int)parts,
                            .mirror = to_real,
                            .bins = bins,
                            .dst_lane = dst_parts,
                            .dst_step = inner * dst_parts,
                            .dst_parts = (int)dst_parts,
                            .scale = inverse ? (float)(1 / (double)n) : 1};
  s->src_block = size * inner * parts, s->dst_block = bins * inner * dst_parts;
  if (inner == 1) {  // the sequences follow one another
    s->blocks = 1, s->lanes = outer;
    s->dft.src_lane = s->src_block, s->dft.dst_lane = s->dst_block;
  }
  return cut(s, x, y, outer * s->src_block, outer * s->dst_block, out_workspace_bytes);
}

static carnot_status* stft_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  fourier_state* s = state;
  const carnot_operand *x = &inputs[kX], *y = &outputs[0],
                       *window = operand(step, inputs, kStftWindow);
  int64_t apart, n;
  CARNOT_CHECK(x->rank == 2 || x->rank == 3, INVALID_MODEL, "a signal of rank %d", x->rank);
  const int64_t batch = x->dims[0], length = x->dims[1], parts = x->rank == 3 ? x->dims[2] : 1;
  CARNOT_TRY(integer_or(operand(step, inputs, kStftStep), 0, &apart));
  CARNOT_TRY(integer_or(operand(step, inputs, kStftLength),
                        window ? carnot_dims_count(window->dims, window->rank) : length, &n));
  CARNOT_CHECK(apart > 0 && n > 0 && n <= length, INVALID_ARGUMENT,
               "frames of %lld, %lld apart, do not fit a signal of %lld", (long long)n,
               (long long)apart, (long long)length);
  CARNOT_CHECK(!window || (window->format.dtype == CARNOT_DTYPE_F32 &&
                           carnot_dims_count(window->dims, window->rank) == n),
               INVALID_ARGUMENT, "the window does not have the frame's %lld numbers", (long long)n);
  const bool onesided =
      carnot_attr_int(carnot_op_get(CARNOT_OP_STFT), &step->region->nodes[0].attrs, "onesided");
  const int64_t bins = onesided ? n / 2 + 1 : n;
  *s = (fourier_state){.blocks = batch, .lanes = (length - n) / apart + 1};
  s->dft = (carnot_dft_f32){.n = n,
                            .size = n,
                            .src_lane = apart * parts,
                            .src_step = parts,
                            .parts = (int)parts,
                            .bins = bins,
                            .dst_lane = 2 * bins,
                            .dst_step = 2,
                            .dst_parts = 2,
                            .scale = 1};
  s->src_block = length * parts, s->dst_block = s->lanes * bins * 2;
  return cut(s, x, y, batch * s->src_block, batch * s->dst_block, out_workspace_bytes);
}

typedef struct fourier_run {
  const carnot_cpu_kernels* kernels;
  const fourier_state* s;
  const float *x, *window, *roots;
  float *y, *scratch;
} fourier_run;

// The pieces, of lanes_per_part lanes of a block, are dealt to the parts in turns.
static void fourier_part(void* argument, int64_t part) {
  const fourier_run* run = argument;
  const fourier_state* s = run->s;
  const int64_t of_block = carnot_ceildiv(s->lanes, s->lanes_per_part);
  carnot_dft_f32 dft = s->dft;
  dft.roots = run->roots, dft.window = run->window;
  for (int64_t piece = part; piece < s->blocks * of_block; piece += s->parts) {
    const int64_t block = piece / of_block, lane0 = piece % of_block * s->lanes_per_part;
    dft.src = run->x + block * s->src_block;
    dft.dst = run->y + block * s->dst_block;
    run->kernels->dft_f32(&dft, lane0, carnot_min_i64(lane0 + s->lanes_per_part, s->lanes),
                          run->scratch + part * s->scratch);
  }
}

static void make_roots(int64_t n, bool inverse, float* roots) {
  for (int64_t k = 0; k <= n / 2; k++) {
    const double turn = 2 * 3.14159265358979323846 * (double)k / (double)n;
    const float re = (float)cos(turn), im = (float)(inverse ? sin(turn) : -sin(turn));
    roots[2 * k] = re, roots[2 * k + 1] = im;
    if (k > 0) roots[2 * (n - k)] = re, roots[2 * (n - k) + 1] = 2 * k == n ? im : -im;
  }
}

static carnot_status* fourier_run_all(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  const fourier_state* s = state;
  float* roots = workspace;
  fourier_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                     .s = s,
                     .x = inputs[kX].data,
                     .roots = roots,
                     .y = outputs[0].data,
                     .scratch = roots + 2 * s->dft.n};
  const carnot_operand* window =
      step->tactic->anchor == CARNOT_OP_STFT ? operand(step, inputs, kStftWindow) : NULL;
  if (window) run.window = window->data;
  make_roots(s->dft.n, s->inverse, roots);
  carnot_executor_parallel(executor, s->parts, fourier_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(dft_f32, .anchor = CARNOT_OP_DFT, .reject = dft_reject,
                   .validate = fourier_validate, .configure = dft_configure,
                   .run = fourier_run_all);
CARNOT_CPU_TACTICS(stft_f32, .anchor = CARNOT_OP_STFT, .reject = stft_reject,
                   .validate = fourier_validate, .configure = stft_configure,
                   .run = fourier_run_all);
