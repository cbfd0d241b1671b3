// Local response normalization of row-major float32:
//   y[n,c,p] = x[n,c,p] * (bias + alpha / size * sum of squares around c)^-beta
// A block of pixels of one channel at a time: the sums go where the result lies.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "kernel/cpu/reduce/reduce_f32.h"

enum { kBlock = 1024 };  // pixels: the channels of a window stay in L2

static const char* lrn_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, CARNOT_OP_LRN);
  if (!why)
    why = carnot_not_f32(&problem->inputs[0], "the input", 3, CARNOT_MAX_RANK, reason, size);
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

typedef struct lrn_state {
  int64_t images, channels, pixels, blocks, before, after;
  carnot_pw_program program;  // inputs: sum of squares, x
} lrn_state;
_Static_assert(sizeof(lrn_state) <= CARNOT_STATE_BYTES, "state is too large");

static carnot_status* lrn_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* memory,
                                    size_t* out_workspace_bytes) {
  lrn_state* s = memory;
  const carnot_operand* x = &inputs[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_LRN);
  const carnot_attrs* attrs = &step->region->nodes[0].attrs;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && x->rank >= 3, INVALID_MODEL,
               "the input is %s of rank %d", carnot_dtype_name(x->format.dtype), x->rank);
  CARNOT_TRY(carnot_cpu_check_alike(x, &outputs[0]));
  const int64_t size = carnot_attr_int(row, attrs, "size");
  CARNOT_CHECK(size > 0 && size <= INT32_MAX, INVALID_MODEL, "size is %lld", (long long)size);
  s->images = x->dims[0], s->channels = x->dims[1];
  s->pixels = carnot_dims_count(x->dims + 2, x->rank - 2);
  s->blocks = carnot_ceildiv(s->pixels, kBlock);
  s->before = (size - 1) / 2, s->after = size - 1 - s->before;
  const float alpha = (float)(carnot_attr_float(row, attrs, "alpha") / (double)size),
              bias = (float)carnot_attr_float(row, attrs, "bias"),
              beta = (float)carnot_attr_float(row, attrs, "beta");
  s->program = (carnot_pw_program){
      .instruction_count = 4,
      .register_count = 6,
      .input_count = 2,
      .output_count = 1,
      .output_register = {5},
      .instructions = {{.fn = CARNOT_PW_AFFINE, .dst = 2, .src = {0}, .a = alpha, .b = bias},
                       {.fn = CARNOT_PW_CONSTANT, .dst = 3, .a = -beta},
                       {.fn = CARNOT_PW_POW, .dst = 4, .src = {2, 3}},
                       {.fn = CARNOT_PW_MUL, .dst = 5, .src = {1, 4}}}};
  return NULL;
}

typedef struct lrn_run {
  const lrn_state* s;
  const carnot_cpu_kernels* kernels;
  const float* x;
  float* y;
} lrn_run;

static void lrn_part(void* argument, int64_t part) {
  const lrn_run* run = argument;
  const lrn_state* s = run->s;
  const int64_t image = part / s->blocks * s->channels * s->pixels, j0 = part % s->blocks * kBlock,
                j1 = carnot_min_i64(j0 + kBlock, s->pixels);
  for (int64_t c = 0; c < s->channels; c++) {
    const int64_t first = carnot_max_i64(c - s->before, 0),
                  last = carnot_min_i64(c + s->after, s->channels - 1);
    float* y = run->y + image + c * s->pixels;
    const carnot_reduce_f32 reduce = {.reduction = CARNOT_KERNEL_REDUCTION_SUM_SQUARE,
                                      .n = last - first + 1,
                                      .inner = s->pixels,
                                      .src = run->x + image + first * s->pixels,
                                      .src_axis = s->pixels,
                                      .dst = y};
    run->kernels->reduce_f32(&reduce, 0, 1, j0, j1);
    const carnot_pw_operand in[2] = {
        {y + j0, 0, 1}, {(void*)(uintptr_t)(run->x + image + c * s->pixels + j0), 0, 1}};
    run->kernels->pointwise(&s->program, in, in, 0, 1, j1 - j0);
  }
}

static carnot_status* lrn_run_all(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  lrn_run run = {.s = state,
                 .kernels = carnot_cpu_kernels_of(step->tactic->isa),
                 .x = inputs[0].data,
                 .y = outputs[0].data};
  carnot_executor_parallel(executor, run.s->images * run.s->blocks, lrn_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(lrn_f32, .anchor = CARNOT_OP_LRN, .reject = lrn_reject,
                   .validate = carnot_cpu_check_single, .configure = lrn_configure,
                   .run = lrn_run_all);
