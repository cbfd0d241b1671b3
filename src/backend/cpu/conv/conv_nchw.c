// Convolution of float32 that reads and writes row-major pictures, for layers whose input lies so:
// no change of layout before and behind.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"

// Parts are at least so many where the problem gives them; floats of a part's scratch, which stay
// in L2, and of one that lies on the stack; rows that share the copied ones above and below them.
enum { kScratch = 1 << 16, kStackScratch = 1 << 13, kLeastRows = 4 };

static const char* check_fit(const carnot_conv_params* p, char* reason, size_t size) {
  const carnot_epilogue_plan* e = &p->epilogue_plan;
  const int64_t taps = p->window.kernel[p->window.rank - 1];
  if (p->window.rank > 2) return "a window of three dimensions";
  if (taps > CARNOT_CONV2D_NCHW_TAPS)
    return carnot_because(reason, size, "a filter of %lld columns, takes up to %d", (long long)taps,
                          CARNOT_CONV2D_NCHW_TAPS);
  if (e->residual >= 0 || e->program.instruction_count || e->operand_count)
    return "more than a bias and an activation follows";
  return NULL;
}

static const char* nchw_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_layout given = problem->inputs[0].format.layout;
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (!why) why = check_fit(&p, reason, size);
  if (why) return why;
  if (given != CARNOT_LAYOUT_ROW_MAJOR) return "the input is not row-major";
  problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

void carnot_conv_nchw_pack(int64_t groups, int64_t filters, int64_t depth, const float* weights,
                           int64_t filter_step, int64_t depth_step, float* packed) {
  const int64_t group_step = carnot_max_i64(filters * filter_step, depth * depth_step);
  for (int64_t g = 0; g < groups; g++)
    for (int64_t block = 0; block < filters; block += CARNOT_CONV2D_NCHW_BLOCK)
      for (int64_t d = 0; d < depth; d++)
        for (int64_t f = block; f < carnot_min_i64(filters, block + CARNOT_CONV2D_NCHW_BLOCK); f++)
          *packed++ = weights[g * group_step + f * filter_step + d * depth_step];
}

static size_t packed_bytes(const carnot_conv_params* p) {
  return (size_t)(p->channels / p->group * carnot_conv_taps(p) * p->filters) * sizeof(float);
}

static carnot_status* nchw_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  void* packed;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = CARNOT_DTYPE_F32;
  CARNOT_TRY(carnot_conv_alloc_weights(out, "gk12 f32", packed_bytes(p), &packed));
  const int64_t depth = p->channels / p->group * carnot_conv_taps(p);
  carnot_conv_nchw_pack(p->group, p->filters / p->group, depth,
                        carnot_conv_weights(problem)->tensor->data, depth, 1, packed);
  return NULL;
}

static carnot_status* nchw_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = check_fit(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the convolution: %s", why);
  return carnot_conv_check_packed(step, packed_bytes(p));
}

typedef struct nchw_state {
  carnot_conv2d_nchw_f32 conv;  // all but addresses
  int64_t images, groups, rows_per_part, bands;
  int64_t filters_per_part, filter_parts;  // of a group
  int64_t scratch;                         // floats of a part
} nchw_state;

// An operand that lies channels-last, of which the geometry is read.
static carnot_operand with_channels_last(const carnot_operand* t) {
  carnot_operand last = *t;
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, t->rank, t->dims, last.strides);
  return last;
}

// A 1x1 window over whole rows: all rows are one.
static void join_rows(carnot_conv2d_nchw_f32* c) {
  if (c->r * c->s > 1 || !carnot_conv2d_nchw_in_place(c) || c->p != c->h || c->q != c->w) return;
  c->w = c->q = c->p * c->q;
  c->h = c->p = 1;
}

// By images, groups and bands of rows; where they are few, by filters.
static void cut(int threads, nchw_state* s) {
  const carnot_conv2d_nchw_f32* c = &s->conv;
  const int64_t planes = carnot_max_i64(1, s->images * s->groups),
                wanted = carnot_ceildiv(carnot_parts(threads), planes);
  s->rows_per_part = carnot_max_i64(carnot_min_i64(kLeastRows, c->p), carnot_ceildiv(c->p, wanted));
  while (s->rows_per_part > kLeastRows &&
         carnot_conv2d_nchw_scratch(c, s->rows_per_part) > kScratch)
    s->rows_per_part = carnot_max_i64(kLeastRows, s->rows_per_part / 2);
  s->rows_per_part = (s->rows_per_part + kLeastRows - 1) / kLeastRows * kLeastRows;
  s->bands = carnot_ceildiv(c->p, s->rows_per_part);
  s->scratch = carnot_conv2d_nchw_scratch(c, carnot_min_i64(s->rows_per_part, c->p));
  s->filters_per_part = carnot_align_up(
      (size_t)carnot_ceildiv(c->k, carnot_ceildiv(wanted, s->bands)), CARNOT_CONV2D_NCHW_BLOCK);
  s->filter_parts = carnot_ceildiv(c->k, s->filters_per_part);
}

static int64_t part_count(const nchw_state* s) {
  return s->images * s->groups * s->bands * s->filter_parts;
}

static carnot_status* nchw_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  nchw_state* s = memory;
  const carnot_conv_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(x->rank >= 3 && y->rank == x->rank && x->format.dtype == CARNOT_DTYPE_F32 &&
                   y->format.dtype == CARNOT_DTYPE_F32 && carnot_cpu_is_dense(x) &&
                   carnot_cpu_is_dense(y),
               INVALID_MODEL, "operands are not dense float32 of one rank");
  const carnot_operand x_last = with_channels_last(x), y_last = with_channels_last(y);
  carnot_window_geometry g;
  CARNOT_TRY(carnot_conv_configure_from(step, &x_last, inputs, &y_last, &g));
  *s = (nchw_state){.images = g.n, .groups = p->group};
  s->conv = (carnot_conv2d_nchw_f32){.h = g.h,
                                     .w = g.w,
                                     .p = g.p,
                                     .q = g.q,
                                     .r = g.r,
                                     .s = g.s,
                                     .stride_h = g.stride_h,
                                     .stride_w = g.stride_w,
                                     .dilation_h = g.dilation_h,
                                     .dilation_w = g.dilation_w,
                                     .pad_h = g.pad_h,
                                     .pad_w = g.pad_w,
                                     .src_plane = g.h * g.w,
                                     .dst_plane = g.p * g.q,
                                     .c = g.c / p->group,
                                     .k = g.k / p->group,
                                     .activation = p->epilogue_plan.activation,
                                     .a = p->epilogue_plan.a,
                                     .b = p->epilogue_plan.b};
  join_rows(&s->conv);
  cut(step->threads, s);
  *out_workspace_bytes =
      s->scratch > kStackScratch ? (size_t)(part_count(s) * s->scratch) * sizeof(float) : 0;
  return NULL;
}

typedef struct nchw_run {
  const carnot_cpu_kernels* kernels;
  const nchw_state* s;
  const float *x, *weights, *bias;
  float *y, *scratch;
} nchw_run;

static void nchw_part(void* argument, int64_t part) {
  const nchw_run* run = argument;
  const nchw_state* s = run->s;
  carnot_conv2d_nchw_f32 c = s->conv;
  const int64_t k0 = part % s->filter_parts * s->filters_per_part, band = part / s->filter_parts;
  const int64_t plane = band / s->bands, row0 = band % s->bands * s->rows_per_part,
                group = plane % s->groups;
  c.src = run->x + plane * c.c * c.src_plane;
  c.dst = run->y + (plane * c.k + k0) * c.dst_plane;
  c.weights = run->weights + (group * c.k + k0) * c.c * c.r * c.s;
  c.bias = run->bias ? run->bias + group * c.k + k0 : NULL;
  c.k = carnot_min_i64(s->filters_per_part, c.k - k0);
  // A small scratch is the stack's: it stays in L1 from part to part.
  float local[kStackScratch] __attribute__((aligned(64)));
  float* scratch = s->scratch > kStackScratch
                       ? run->scratch + carnot_executor_scratch(part) * s->scratch
                       : local;
  run->kernels->conv2d_nchw_f32(&c, row0, carnot_min_i64(row0 + s->rows_per_part, c.p), scratch);
}

static carnot_status* nchw_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const nchw_state* s = state;
  const carnot_conv_params* p = step->params;
  nchw_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .s = s,
                  .x = inputs[0].data,
                  .weights = step->constants[0],
                  .bias = p->has_bias ? step->constants[1] : NULL,
                  .y = outputs[0].data,
                  .scratch = workspace};
  carnot_executor_parallel(executor, part_count(s), nchw_part, &run);
  return NULL;
}

static void nchw_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 4, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(conv_nchw_f32, .anchor = CARNOT_OP_CONV, .reject = nchw_reject,
                   .prepare = nchw_prepare, .validate = nchw_validate,
                   .uses_input = carnot_conv_uses_input, .configure = nchw_configure,
                   .run = nchw_run_all, .work = nchw_work);
