// Columns of blocks summed back to pictures, row-major float32 with a constant block:
//   y[n,c, p*stride_h + r*dilation_h - pad_h, q*stride_w + s*dilation_w - pad_w] +=
//   x[n, (c,r,s), (p,q)]
// A channel is a part: its taps add rows of columns to rows of the picture.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/window_geometry.h"
#include "tactic/problem/conv.h"

enum { kX, kImage, kBlock, kRank = 2 };

static const char* read_problem(const carnot_problem* problem, void* params, char* reason,
                                size_t size) {
  carnot_sliding_window* window = params;
  const char* why = carnot_cpu_single(problem, CARNOT_OP_COL2IM);
  if (!why) why = carnot_not_f32(&problem->inputs[kX], "the input", 3, 3, reason, size);
  if (why) return why;
  const carnot_operand_desc *block = &problem->inputs[kBlock], *y = &problem->outputs[0];
  if (y->rank != kRank + 2) return carnot_because(reason, size, "a result of rank %d", y->rank);
  if (!carnot_is_known(block) || carnot_tensor_count(block->tensor) != kRank)
    return "the block is no two known sizes";
  int64_t dims[kRank + 2] = {1, 1};
  carnot_load_block_i64(block->tensor->dtype, block->tensor->data, 0, 1, kRank, dims + 2);
  const carnot_type type = carnot_conv_weights_type(kRank + 2, dims);
  carnot_status* status = carnot_sliding_window_read(
      carnot_op_get(CARNOT_OP_COL2IM), &problem->region->nodes[0].attrs, kRank, &type, window);
  if (!status) return NULL;
  carnot_status_free(status);
  return "its window cannot be read";
}

static const char* col2im_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_sliding_window window;
  const char* why = read_problem(problem, &window, reason, size);
  if (!why)
    problem->inputs[kX].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* col2im_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_problem, sizeof(carnot_sliding_window), out);
}

static carnot_status* col2im_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cpu_check_single(step));
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_sliding_window), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_sliding_window));
  return carnot_sliding_window_check(step->params, kRank, kRank);
}

typedef struct col2im_state {
  carnot_sliding_window window;
  int64_t planes, image[kRank], positions[kRank];  // positions: of the block
} col2im_state;

static carnot_status* col2im_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  col2im_state* s = memory;
  const carnot_operand *x = &inputs[kX], *y = &outputs[0];
  const carnot_sliding_window* w = step->params;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   x->rank == 3 && y->rank == kRank + 2 && x->dims[0] == y->dims[0] &&
                   carnot_cpu_is_dense(x) && carnot_cpu_is_dense(y),
               INVALID_MODEL, "operands are %s of rank %d and %s of rank %d",
               carnot_dtype_name(x->format.dtype), x->rank, carnot_dtype_name(y->format.dtype),
               y->rank);
  s->window = *w;
  s->planes = y->dims[0] * y->dims[1];
  for (int d = 0; d < kRank; d++) {
    const int64_t reach = (w->kernel[d] - 1) * w->dilations[d] + 1,
                  room = y->dims[2 + d] + w->begin[d] + w->end[d] - reach;
    CARNOT_CHECK(room >= 0, INVALID_ARGUMENT, "a block of %lld does not fit dimension %d of %lld",
                 (long long)reach, d, (long long)y->dims[2 + d]);
    s->image[d] = y->dims[2 + d];
    s->positions[d] = room / w->strides[d] + 1;
  }
  const int64_t taps = w->kernel[0] * w->kernel[1], columns = s->positions[0] * s->positions[1];
  CARNOT_CHECK(x->dims[1] == y->dims[1] * taps && x->dims[2] == columns, INVALID_ARGUMENT,
               "the input has %lld rows and %lld columns; %lld and %lld are required",
               (long long)x->dims[1], (long long)x->dims[2], (long long)(y->dims[1] * taps),
               (long long)columns);
  return NULL;
}

typedef struct col2im_run {
  const col2im_state* s;
  const float* x;
  float* y;
} col2im_run;

CARNOT_CPU_INLINE void add_row(const float* restrict x, float* restrict y, int64_t stride,
                               int64_t count) {
  for (int64_t i = 0; i < count; i++) y[i * stride] += x[i];
}

// Adds the columns of tap (r,s), a picture of positions, to a channel.
static void add_tap(const col2im_state* state, int64_t r, int64_t s, const float* x, float* y) {
  const carnot_sliding_window* w = &state->window;
  const int64_t stride = w->strides[1], first = s * w->dilations[1] - w->begin[1],
                q0 = first < 0 ? carnot_ceildiv(-first, stride) : 0,
                q1 = first < state->image[1]
                         ? carnot_min_i64(state->positions[1],
                                          (state->image[1] - 1 - first) / stride + 1)
                         : 0;
  for (int64_t p = 0; p < state->positions[0] && q0 < q1; p++) {
    const int64_t h = p * w->strides[0] + r * w->dilations[0] - w->begin[0];
    if (h < 0 || h >= state->image[0]) continue;
    const float* from = x + p * state->positions[1] + q0;
    float* to = y + h * state->image[1] + first + q0 * stride;
    if (stride == 1)
      add_row(from, to, 1, q1 - q0);
    else
      add_row(from, to, stride, q1 - q0);
  }
}

static void col2im_part(void* argument, int64_t plane) {
  const col2im_run* run = argument;
  const col2im_state* state = run->s;
  const int64_t rows = state->window.kernel[0], columns = state->window.kernel[1],
                size = state->image[0] * state->image[1],
                positions = state->positions[0] * state->positions[1];
  float* y = run->y + plane * size;
  memset(y, 0, (size_t)size * sizeof(float));
  for (int64_t t = 0; t < rows * columns; t++)
    add_tap(state, t / columns, t % columns, run->x + (plane * rows * columns + t) * positions, y);
}

static carnot_status* col2im_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)step, (void)workspace;
  col2im_run run = {.s = state, .x = inputs[kX].data, .y = outputs[0].data};
  carnot_executor_parallel(executor, run.s->planes, col2im_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_col2im_f32 = {.name = "cpu_col2im_f32",
                                                .anchor = CARNOT_OP_COL2IM,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = CARNOT_NUMERICS_EXACT,
                                                .reject = col2im_reject,
                                                .prepare = col2im_prepare,
                                                .validate = col2im_validate,
                                                .configure = col2im_configure,
                                                .run = col2im_run_all};
