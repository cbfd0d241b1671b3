// Max and average pooling over channels-last operands: float32, and the maximum of bytes.
#include "backend/cpu/pool/pool.h"

#include "backend/cpu/common/isa_variants.h"

const char* carnot_pool_params_read(const carnot_problem* problem, carnot_op op, int low, int high,
                                    carnot_pool_params* out, char* reason, size_t size) {
  carnot_pool_problem pool;
  const char* why = carnot_pool_problem_read(problem, &pool, reason, size);
  if (why) return why;
  if (pool.op != op) return "";
  if (problem->output_count != 1) return "the indices are wanted too";
  const carnot_operand_desc* x = &problem->inputs[0];
  bool bytes = op == CARNOT_OP_MAX_POOL && carnot_is_8bit(x->format.dtype) && x->rank >= low &&
               x->rank <= high;
  why = bytes ? NULL : carnot_not_f32_value(problem, x, "the input", low, high, reason, size);
  *out = (carnot_pool_params){.window = pool.window, .include_padding = pool.include_padding};
  return why;
}

static const char* take_layout(carnot_problem* problem, const char* why) {
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout =
        CARNOT_LAYOUT_CHANNELS_LAST;
  return why;
}
static const char* reject_max(carnot_problem* problem, bool bytes, char* reason, size_t size) {
  carnot_pool_params p;
  const char* why = carnot_pool_params_read(problem, CARNOT_OP_MAX_POOL, 3, 5, &p, reason, size);
  if (!why && carnot_is_8bit(problem->inputs[0].format.dtype) != bytes)
    why = carnot_because(reason, size, "the input is %s",
                         carnot_dtype_name(problem->inputs[0].format.dtype));
  return take_layout(problem, why);
}
static const char* max_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_max(problem, false, reason, size);
}
static const char* max_bytes_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_max(problem, true, reason, size);
}
static const char* average_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_pool_params p;
  return take_layout(
      problem, carnot_pool_params_read(problem, CARNOT_OP_AVERAGE_POOL, 3, 4, &p, reason, size));
}

static const char* read_any(const carnot_problem* problem, void* params, char* reason,
                            size_t size) {
  return carnot_pool_params_read(problem, problem->region->nodes[0].op, 3, CARNOT_MAX_RANK, params,
                                 reason, size);
}

carnot_status* carnot_pool_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_any, sizeof(carnot_pool_params), out);
}

static carnot_status* pool_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_pool_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_pool_params));
  const int most = step->region->nodes[0].op == CARNOT_OP_MAX_POOL ? 3 : 2;
  return carnot_sliding_window_check(&((const carnot_pool_params*)step->params)->window, 1, most);
}

typedef struct pool_state {
  carnot_window_geometry geometry;
  int64_t rows_per_part, row_count;
} pool_state;

static carnot_status* configure_as(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, bool bytes, void* memory,
                                   size_t* out_workspace_bytes) {
  pool_state* state = memory;
  CARNOT_CHECK(bytes ? carnot_is_8bit(inputs[0].format.dtype) &&
                           outputs[0].format.dtype == inputs[0].format.dtype
                     : carnot_cpu_is_f32_value(step, &inputs[0]) &&
                           carnot_cpu_is_f32_value(step, &outputs[0]),
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(inputs[0].format.dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  const carnot_pool_params* p = step->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_window_geometry_of(&p->window, &inputs[0], &outputs[0], &state->geometry));
  const carnot_window_geometry* geometry = &state->geometry;
  CARNOT_CHECK(geometry->c == geometry->k, INVALID_ARGUMENT, "%lld channels give %lld",
               (long long)geometry->c, (long long)geometry->k);
  state->row_count = geometry->n * carnot_window_depth(geometry).out * geometry->p;
  state->rows_per_part =
      carnot_rows_per_part(state->row_count, geometry->q * geometry->c * geometry->r * geometry->s *
                                                 carnot_max_i64(1, geometry->depth.taps));
  return NULL;
}
static carnot_status* pool_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  return configure_as(step, inputs, outputs, /*bytes=*/false, memory, out_workspace_bytes);
}
// Of the row that holds the maxima of the rows under a window.
static size_t max_bytes_row_bytes(const pool_state* s) {
  return carnot_align_up((size_t)(s->geometry.w * s->geometry.c), 64);
}
// Of a part.
static size_t max_bytes_scratch(const pool_state* s) {
  return max_bytes_row_bytes(s) * (s->geometry.depth.taps > 1 ? 2 : 1);
}
static carnot_status* max_bytes_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const pool_state* state = memory;
  CARNOT_TRY(configure_as(step, inputs, outputs, /*bytes=*/true, memory, out_workspace_bytes));
  *out_workspace_bytes =
      max_bytes_scratch(state) * (size_t)carnot_ceildiv(state->row_count, state->rows_per_part);
  return NULL;
}

typedef struct pool_run {
  const carnot_cpu_kernels* kernels;
  carnot_pool_f32 pool;
  int64_t rows_per_part, row_count;
  bool max;
} pool_run;

static void pool_part(void* argument, int64_t part) {
  const pool_run* run = argument;
  int64_t row0 = part * run->rows_per_part,
          row1 = carnot_min_i64(row0 + run->rows_per_part, run->row_count);
  if (run->max) {
    run->kernels->max_pool_f32(&run->pool, row0, row1);
  } else {
    run->kernels->average_pool_f32(&run->pool, row0, row1);
  }
}

static carnot_status* run_pool(const carnot_step_view* step, void* memory,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               carnot_executor* executor, bool max) {
  const pool_state* state = memory;
  const carnot_window_geometry* geometry = &state->geometry;
  pool_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .rows_per_part = state->rows_per_part,
                  .row_count = state->row_count,
                  .max = max};
  run.pool = (carnot_pool_f32){
      CARNOT_WINDOW_FIELDS(geometry),
      .c = geometry->c,
      .pad_h_end = geometry->pad_h_end,
      .pad_w_end = geometry->pad_w_end,
      .depth = geometry->depth,
      .include_padding = ((const carnot_pool_params*)step->params)->include_padding != 0,
      .src_is_bf16 = inputs[0].format.dtype == CARNOT_DTYPE_BF16,
      .dst_is_bf16 = outputs[0].format.dtype == CARNOT_DTYPE_BF16,
      .src = inputs[0].data,
      .src_n = geometry->src_n,
      .src_h = geometry->src_h,
      .src_w = geometry->src_w,
      .dst = outputs[0].data,
      .ld = geometry->ld};
  carnot_executor_parallel(executor, carnot_ceildiv(run.row_count, run.rows_per_part), pool_part,
                           &run);
  return NULL;
}

static carnot_status* max_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)workspace;
  return run_pool(step, state, inputs, outputs, executor, true);
}
static carnot_status* average_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  return run_pool(step, state, inputs, outputs, executor, false);
}

CARNOT_CPU_TACTICS(max_pool_f32, .anchor = CARNOT_OP_MAX_POOL, .strided_outputs = true,
                   .takes_bf16 = true, .reject = max_reject, .prepare = carnot_pool_prepare,
                   .validate = pool_validate, .configure = pool_configure, .run = max_run);
CARNOT_CPU_TACTICS(average_pool_f32, .anchor = CARNOT_OP_AVERAGE_POOL, .strided_outputs = true,
                   .takes_bf16 = true, .reject = average_reject, .prepare = carnot_pool_prepare,
                   .validate = pool_validate, .configure = pool_configure, .run = average_run);

// ---- bytes: plain loops over the channels, which the compiler vectorises ----

typedef struct bytes_run {
  const pool_state* state;
  const uint8_t* x;
  uint8_t *y, *rows;
  bool is_signed;
} bytes_run;

#define DEFINE_MAX(name, type)                                                                     \
  static void name##_3(int64_t n, const type* a, const type* b, const type* c, type* restrict y) { \
    for (int64_t i = 0; i < n; i++) {                                                              \
      const type x = a[i] > b[i] ? a[i] : b[i];                                                    \
      y[i] = x > c[i] ? x : c[i];                                                                  \
    }                                                                                              \
  }                                                                                                \
  static void name##_more(int64_t n, const type* x, type* restrict y) {                            \
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > y[i] ? x[i] : y[i];                              \
  }                                                                                                \
  /* Of |n| numbers under |count| taps, each |step| behind the last. */                            \
  static void name(int64_t n, const type* x, int64_t step, int64_t count, type* y) {               \
    name##_3(n, x, x + (count > 1 ? step : 0), x + (count > 2 ? 2 * step : 0), y);                 \
    for (int64_t i = 3; i < count; i++) name##_more(n, x + i * step, y);                           \
  }
DEFINE_MAX(max_of_signed, int8_t)
DEFINE_MAX(max_of_unsigned, uint8_t)
#undef DEFINE_MAX

static void max_of(bool is_signed, int64_t n, const uint8_t* x, int64_t step, int64_t count,
                   uint8_t* y) {
  if (count <= 0)
    memset(y, is_signed ? 0x80 : 0, (size_t)n);
  else if (is_signed)
    max_of_signed(n, (const int8_t*)x, step, count, (int8_t*)y);
  else
    max_of_unsigned(n, x, step, count, y);
}

// The taps [begin,end) from |at| on, |dilation| apart, that are below |size|.
static void taps_inside(int64_t at, int64_t dilation, int64_t taps, int64_t size, int64_t* begin,
                        int64_t* end) {
  *begin = at < 0 ? carnot_ceildiv(-at, dilation) : 0;
  *end = carnot_min_i64(taps, at < size ? carnot_ceildiv(size - at, dilation) : 0);
}

// The maxima of |count| rows from |x| on, |step| apart, each of all pixels.
static void max_of_rows(const bytes_run* run, const uint8_t* x, int64_t step, int64_t count,
                        uint8_t* row) {
  const carnot_window_geometry* t = &run->state->geometry;
  const bool dense = t->src_w == t->c;
  const int64_t pixels = dense ? 1 : t->w, bytes = dense ? t->w * t->c : t->c;
  for (int64_t w = 0; w < pixels; w++)
    max_of(run->is_signed, bytes, x + w * t->src_w, step, count, row + w * t->c);
}

// The maxima of the rows under output row |index| of all, then those of their columns. |row| has
// room for two rows: those of a plane, and of the planes before it.
static void max_bytes_row(const bytes_run* run, int64_t index, uint8_t* row) {
  const carnot_window_geometry* t = &run->state->geometry;
  const carnot_conv_depth d = carnot_window_depth(t);
  const int64_t p = index % t->p, o = index / t->p % d.out, image = index / t->p / d.out;
  const int64_t h = p * t->stride_h - t->pad_h, step = t->dilation_h * t->src_h;
  const int64_t z = o * d.stride - d.pad;
  int64_t begin, end, first, last;
  taps_inside(h, t->dilation_h, t->r, t->h, &begin, &end);
  taps_inside(z, d.dilation, d.taps, d.in, &first, &last);
  const uint8_t* x = run->x + image * t->src_n + h * t->src_h + begin * step;
  uint8_t* const other = row + max_bytes_row_bytes(run->state);
  max_of_rows(run, x + (z + first * d.dilation) * d.src, step, first < last ? end - begin : 0, row);
  for (int64_t i = first + 1; i < last; i++) {
    max_of_rows(run, x + (z + i * d.dilation) * d.src, step, end - begin, other);
    if (run->is_signed)
      max_of_signed_more(t->w * t->c, (const int8_t*)other, (int8_t*)row);
    else
      max_of_unsigned_more(t->w * t->c, other, row);
  }
  uint8_t* y = run->y + index * t->q * t->ld;
  for (int64_t q = 0; q < t->q; q++, y += t->ld) {
    const int64_t w = q * t->stride_w - t->pad_w, apart = t->dilation_w * t->c;
    taps_inside(w, t->dilation_w, t->s, t->w, &begin, &end);
    max_of(run->is_signed, t->c, row + w * t->c + begin * apart, apart, end - begin, y);
  }
}

static void max_bytes_part(void* argument, int64_t part) {
  const bytes_run* run = argument;
  const pool_state* s = run->state;
  uint8_t* row_maxima = run->rows + (size_t)part * max_bytes_scratch(s);
  int64_t last = carnot_min_i64((part + 1) * s->rows_per_part, s->row_count);
  for (int64_t row = part * s->rows_per_part; row < last; row++)
    max_bytes_row(run, row, row_maxima);
}

static carnot_status* max_bytes_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)step;
  bytes_run run = {state, inputs[0].data, outputs[0].data, workspace,
                   inputs[0].format.dtype == CARNOT_DTYPE_I8};
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
                           max_bytes_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_max_pool_bytes = {.name = "cpu_max_pool_bytes",
                                                    .anchor = CARNOT_OP_MAX_POOL,
                                                    .isa = CARNOT_ISA_SCALAR,
                                                    .numerics = CARNOT_NUMERICS_EXACT,
                                                    .strided_outputs = true,
                                                    .reject = max_bytes_reject,
                                                    .prepare = carnot_pool_prepare,
                                                    .validate = pool_validate,
                                                    .configure = max_bytes_configure,
                                                    .run = max_bytes_run};
