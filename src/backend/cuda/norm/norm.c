// Layer, RMS, group and instance normalization, and batch normalization by given statistics. Layer
// and RMS norms may quantize their result.
#include "tactic/problem/norm.h"

#include "backend/cuda/pointwise/chain.h"
#include "backend/cuda/quantize/byte_result.h"
#include "kernel/cuda/norm/norm_params.h"

static const carnot_cuda_kernel_id kNorm[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REAL_TYPES(CARNOT_CUDA_BY_TYPE, norm)};

static const carnot_cuda_kernel_id kNormRow[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, norm_row)};

// By the 16-byte vectors that a lane holds.
static const carnot_cuda_kernel_id kNormWarp[4][CARNOT_DTYPE_COUNT] = {
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, norm_warp_1)},
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, norm_warp_3)},
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, norm_warp_4)},
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, norm_warp_8)}};

// By the lanes of a row, of one vector each.
static const carnot_cuda_kernel_id kNormLanes[2][CARNOT_DTYPE_COUNT] = {
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, norm_lanes_8)},
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, norm_lanes_16)}};

typedef struct norm_launch {
  CUfunction function;
  int64_t rows;      // of a block
  unsigned threads;  // of a block
} norm_launch;

typedef struct norm_state {
  norm_launch plain, vectors;  // the latter, where there is one, for operands at 16 bytes
  carnot_cuda_norm_params params;
  int64_t groups;
  carnot_cuda_chain_state chain;
} norm_state;
_Static_assert(sizeof(norm_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* norm_chain(const carnot_region* region, uint32_t inputs, carnot_cuda_chain* out,
                              char* reason, size_t size) {
  return carnot_cuda_chain_make(region, inputs, 1, region->nodes[0].outputs[0], out, reason, size);
}

// Scale or bias |t| of a norm by row has one value per element of the row, or of its last axes,
// repeated along those before.
static bool runs_along_row(const carnot_operand_desc* t, const carnot_operand_desc* x,
                           int64_t axis) {
  bool fits = t->rank <= x->rank - axis, ends = false;
  for (int d = 1; fits && d <= t->rank; d++) {
    int64_t dim = t->dims[t->rank - d];
    ends = ends || dim != x->dims[x->rank - d];
    fits = t->min[t->rank - d] == t->max[t->rank - d] && (!ends || dim == 1);
  }
  return fits;
}

static const char* check_parameters(const carnot_problem* problem,
                                    const carnot_norm_problem* norm) {
  const carnot_operand_desc *x = &problem->inputs[0], *scale = NULL;
  const uint32_t parameters[] = {norm->scale, norm->bias};
  for (uint32_t i = 0; i < 2; i++) {
    if (parameters[i] == CARNOT_PLAN_NONE) continue;
    if (parameters[i] != i + 1) return "scale and bias are not inputs 1 and 2";
    const carnot_operand_desc* t = &problem->inputs[parameters[i]];
    if (t->format.dtype != x->format.dtype) return "scale or bias have another type than the input";
    bool fits =
        !carnot_norm_is_by_row(norm) || runs_along_row(t, x, carnot_norm_axis(norm, x->rank));
    if (fits && carnot_norm_is_by_row(norm) && scale)
      fits = carnot_dims_count(t->dims, t->rank) == carnot_dims_count(scale->dims, scale->rank);
    if (!fits) return "scale or bias do not run along the normalized axes";
    scale = t;
  }
  return NULL;
}

// ---- a quantized result: norm, cast of 16-bit floats to float32, quantize ----

enum { kMostOfWarp = 2048, kMostThreads = 1024 };

// Elements of a vector of 16 bytes, and the vectors that a block holds.
static int64_t vector_of(carnot_dtype dtype) { return 128 / carnot_dtype_bits(dtype); }
static const int64_t kMostVectors = (int64_t)kMostThreads * CARNOT_CUDA_NORM_ROW_PIECES;

typedef struct quantized_tail {
  carnot_quantized_end end;
  int32_t y, q;  // outputs of the step; y -1: the float result is not read
} quantized_tail;

static bool holds_quantize(const carnot_region* region) {
  return region->nodes[region->node_count - 1].op == CARNOT_OP_QUANTIZE_LINEAR;
}

static bool read_tail(const carnot_region* region, uint32_t input_count, quantized_tail* out) {
  if (region->node_count != 2 && region->node_count != 3) return false;
  const carnot_plan_node *norm = &region->nodes[0],
                         *cast = region->node_count == 3 ? norm + 1 : NULL,
                         *quantize = &region->nodes[region->node_count - 1];
  if ((cast && (cast->op != CARNOT_OP_CAST || cast->inputs[0] != norm->outputs[0])) ||
      quantize->op != CARNOT_OP_QUANTIZE_LINEAR ||
      quantize->inputs[0] != (cast ? cast : norm)->outputs[0] ||
      !carnot_quantized_end_read(quantize, input_count, &out->end) || region->output_count < 1 ||
      region->output_count > 2)
    return false;
  out->q = region->outputs[0] == quantize->outputs[0] ? 0 : (int32_t)region->output_count - 1;
  out->y = region->output_count == 2 ? 1 - out->q : -1;
  return region->outputs[out->q] == quantize->outputs[0] &&
         (out->y < 0 || region->outputs[out->y] == norm->outputs[0]);
}

// Stored in engines.
typedef struct norm_quantization {
  int32_t y, q;  // outputs of the step
  carnot_cuda_byte_result bytes;
} norm_quantization;

static const char* read_quantization(const carnot_problem* problem, norm_quantization* out) {
  quantized_tail tail;
  if (!read_tail(problem->region, problem->input_count, &tail))
    return "what follows is more than a quantization";
  out->y = tail.y, out->q = tail.q;
  return carnot_cuda_byte_result_read(problem, &tail.end, (uint32_t)tail.q, &out->bytes);
}

static const char* check_quantized(const carnot_problem* problem, const carnot_norm_problem* norm) {
  norm_quantization quantization;
  const carnot_operand_desc* x = &problem->inputs[0];
  const char* why = read_quantization(problem, &quantization);
  if (why) return why;
  int64_t size = 1;
  for (int d = (int)carnot_max_i64(0, carnot_norm_axis(norm, x->rank)); d < x->rank; d++) {
    if (x->min[d] != x->max[d]) return "the normalized axes are of open size";
    size *= x->dims[d];
  }
  const int64_t vector = vector_of(x->format.dtype);
  if (!carnot_norm_is_by_row(norm) || !carnot_cuda_is_float(x->format.dtype) || size % vector ||
      size / vector > kMostVectors || size != x->dims[x->rank - 1])
    return "quantized results are those of rows of up to 2048 whole vectors of 16 bytes";
  for (uint32_t i = 1; i < 3 && i < problem->region->nodes[0].input_count; i++)
    if (problem->region->nodes[0].inputs[i] != CARNOT_PLAN_NONE &&
        carnot_dims_count(problem->inputs[i].dims, problem->inputs[i].rank) != size)
      return "scale and bias have not one number for each element of a row";
  return NULL;
}

static const char* norm_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  if (!carnot_norm_read(problem->region, &norm) || carnot_norm_is_softmax(&norm)) return "";
  carnot_cuda_want_row_major(problem);
  const char* why = carnot_cuda_not_real(&problem->inputs[0], reason, size);
  if (!why) why = check_parameters(problem, &norm);
  if (why) return why;
  if (holds_quantize(problem->region)) return check_quantized(problem, &norm);
  for (uint32_t i = 1; i < problem->output_count; i++)
    if (problem->outputs[i].format.dtype != CARNOT_DTYPE_F32)
      return "statistics of another type than float32";
  carnot_cuda_chain chain;
  if (problem->output_count > 1 && problem->region->node_count > 1) return "too many results";
  if (problem->output_count > 1) return NULL;
  return norm_chain(problem->region, problem->input_count, &chain, reason, size);
}

static carnot_status* prepare_quantized(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(norm_quantization), "parameters", &params));
  const char* why = read_quantization(problem, params);
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(norm_quantization);
  return NULL;
}

static carnot_status* norm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_chain chain;
  char reason[256];
  if (problem->region->node_count == 1) return NULL;
  if (holds_quantize(problem->region)) return prepare_quantized(problem, out);
  const char* why =
      norm_chain(problem->region, problem->input_count, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &chain, problem->inputs[0].format.dtype, out);
}

static bool is_aligned(const carnot_step_view* step, const carnot_operand* inputs,
                       const carnot_operand* outputs, const carnot_cuda_norm_params* p) {
  uintptr_t bits = (uintptr_t)outputs[0].data;
  if (p->bytes.type && step->output_count == 2) bits |= (uintptr_t)outputs[1].data;
  for (uint32_t i = 0; i < step->input_count && i < 3; i++) bits |= (uintptr_t)inputs[i].data;
  return bits % 16 == 0;
}

// The kernel that reads rows by 16-byte vectors; NULL: none fits. Few elements of 16-bit floats:
// some lanes or a warp hold a row in registers.
static const carnot_cuda_kernel_id* choose_vectors(const carnot_step_view* step, carnot_dtype dtype,
                                                   const norm_state* s, norm_launch* out) {
  const carnot_cuda_norm_params* p = &s->params;
  const int64_t size = p->size, bytes = carnot_dtype_bits(dtype) / 8,
                vectors = size / vector_of(dtype);
  if (!size || !carnot_cuda_is_float(dtype) || !p->per_element || p->period != size || p->row ||
      size * bytes % 16 || p->group_pitch * bytes % 16)
    return NULL;
  if (carnot_cuda_is_half(dtype) && size <= kMostOfWarp &&
      (step->output_count == 1 || p->bytes.type)) {
    const int lanes = size <= 64 ? 8 : size <= 128 ? 16 : 32;
    const int pieces = size <= 256 ? 0 : size <= 768 ? 1 : size <= 1024 ? 2 : 3;
    // One warp per block while there are few rows.
    const unsigned warps = s->groups > 4096 ? 4 : 1;
    out->rows = warps * (32 / lanes), out->threads = 32 * warps;
    return lanes == 32 ? kNormWarp[pieces] : kNormLanes[lanes / 16];
  }
  if (vectors > kMostVectors) return NULL;
  out->rows = 1;
  out->threads = (unsigned)carnot_min_i64(kMostThreads, carnot_ceildiv(vectors, 32) * 32);
  return kNormRow;
}

// Scale and bias when shapes are set: |period| values each by row, one per channel else.
static carnot_status* set_parameters(const carnot_step_view* step, const carnot_norm_problem* norm,
                                     const carnot_operand* inputs, carnot_cuda_norm_params* p) {
  const carnot_operand* x = &inputs[0];
  const uint32_t parameters[] = {norm->scale, norm->bias};
  p->period = p->size;
  for (uint32_t i = 0; p->per_element && i < 2; i++)
    if (parameters[i] == i + 1 && parameters[i] < step->input_count)
      p->period = carnot_dims_count(inputs[i + 1].dims, inputs[i + 1].rank);
  int64_t wanted = p->per_element ? p->period : x->dims[1];
  CARNOT_CHECK(p->period > 0 || !p->size, INVALID_ARGUMENT, "an empty scale");
  for (uint32_t i = 0; i < 2; i++)
    CARNOT_CHECK(parameters[i] == CARNOT_PLAN_NONE ||
                     (parameters[i] == i + 1 && parameters[i] < step->input_count &&
                      inputs[i + 1].format.dtype == x->format.dtype &&
                      carnot_dims_count(inputs[i + 1].dims, inputs[i + 1].rank) == wanted),
                 INVALID_ARGUMENT, "operand %u has other than %lld elements", i + 1,
                 (long long)wanted);
  return NULL;
}

// Rows of the input may be apart.
static carnot_status* set_rows(const carnot_operand* x, carnot_cuda_norm_params* p) {
  int64_t strides[CARNOT_MAX_RANK];
  bool dense = true;
  p->group_pitch = p->size;
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, x->rank, x->dims, strides);
  for (int d = 0; d < x->rank; d++) dense &= x->dims[d] <= 1 || x->strides[d] == strides[d];
  if (dense) return NULL;
  const int64_t pitch = carnot_cuda_row_pitch(x, /*channels_last=*/false);
  CARNOT_CHECK(pitch, INVALID_ARGUMENT, "the input has no rows at one distance");
  const int64_t row = x->dims[x->rank - 1];
  p->group_pitch = p->size / row * pitch;
  if (p->size != row) p->row = (int)row, p->pitch = (int)pitch;
  return NULL;
}

static carnot_status* set_quantization(const carnot_step_view* step, const carnot_operand* outputs,
                                       carnot_cuda_norm_params* p) {
  if (!holds_quantize(step->region)) return NULL;
  const norm_quantization* q = step->params;
  const int32_t outputs_count = (int32_t)step->output_count;
  CARNOT_CHECK(step->param_bytes == sizeof(*q) && q->q >= 0 && q->q < outputs_count && q->y >= -1 &&
                   q->y < outputs_count && q->y != q->q &&
                   carnot_cuda_byte_result_fits(&q->bytes, outputs[q->q].format.dtype),
               INVALID_MODEL, "the stored quantization of a norm does not fit its step");
  p->bytes = q->bytes;
  return NULL;
}

static carnot_status* norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  carnot_norm_problem norm;
  carnot_norm_extents e;
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  CARNOT_TRY(carnot_cuda_on_device(outputs, step->output_count));
  CARNOT_CHECK(carnot_norm_read(step->region, &norm) && !carnot_norm_is_softmax(&norm),
               INVALID_MODEL, "the step holds no normalization");
  CARNOT_TRY(carnot_norm_extents_of(&norm, x->rank, x->dims, &e));
  norm_state* s = state;
  *s = (norm_state){.params = {.eps = (float)norm.epsilon,
                               .rms = norm.kind == CARNOT_NORM_RMS,
                               .per_element = carnot_norm_is_by_row(&norm),
                               .size = e.size,
                               .spatial = e.spatial,
                               .groups = e.groups}};
  CARNOT_TRY(set_parameters(step, &norm, inputs, &s->params));
  CARNOT_TRY(set_rows(x, &s->params));
  CARNOT_TRY(set_quantization(step, outputs, &s->params));
  s->groups = carnot_dims_count(x->dims, x->rank) / carnot_max_i64(1, e.size);
  s->params.count = s->groups;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_dtype dtype = x->format.dtype;
  const carnot_cuda_kernel_id* vectors = choose_vectors(step, dtype, s, &s->vectors);
  CARNOT_CHECK(vectors || !s->params.bytes.type, UNSUPPORTED,
               "rows of %lld elements that are quantized", (long long)e.size);
  if (vectors) CARNOT_TRY(carnot_cuda_kernel_for(cuda, vectors, dtype, &s->vectors.function));
  s->plain.rows = 1, s->plain.threads = carnot_cuda_row_threads(e.size);
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kNorm, dtype, &s->plain.function));
  if (step->region->node_count == 1 || s->params.bytes.type) return NULL;
  carnot_cuda_chain chain;
  char reason[256];
  const char* why = norm_chain(step->region, step->input_count, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return carnot_cuda_chain_shape(step, &chain, inputs, outputs, &s->chain);
}

static carnot_status* norm_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  norm_state* s = state;
  const carnot_plan_node* node = &step->region->nodes[0];
  bool scales = node->input_count > 1 && node->inputs[1] != CARNOT_PLAN_NONE;
  bool shifts = node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE;
  s->params.x = inputs[0].data;
  s->params.scale = scales ? inputs[1].data : NULL;
  s->params.bias = shifts ? inputs[2].data : NULL;
  s->params.y = outputs[0].data;
  if (s->params.bytes.type) {
    const norm_quantization* q = step->params;
    s->params.y = q->y < 0 ? NULL : outputs[q->y].data;
    s->params.q = outputs[q->q].data;
  }
  for (uint32_t i = 1, at = 1; i < node->output_count; i++) {
    if (node->outputs[i] == CARNOT_PLAN_NONE || at >= step->output_count) continue;
    *(i == 1 ? &s->params.mean_out : &s->params.inv_out) = outputs[at++].data;
  }
  const bool aligned = is_aligned(step, inputs, outputs, &s->params);
  CARNOT_CHECK(aligned || !s->params.bytes.type, UNSUPPORTED,
               "operands of a quantized norm must be at multiples of 16 bytes");
  const norm_launch* l = aligned && s->vectors.function ? &s->vectors : &s->plain;
  const int64_t grid[3] = {carnot_ceildiv(s->groups, l->rows), 1, 1};
  CARNOT_TRY(carnot_cuda_launch(step, l->function, grid, l->threads, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_norm = {.name = "cuda_norm",
                                        .anchor = CARNOT_OP_COUNT,
                                        .numerics = CARNOT_NUMERICS_EXACT,
                                        .device = true,
                                        .pitched_inputs = 1,
                                        .reject = norm_reject,
                                        .prepare = norm_prepare,
                                        .configure = norm_shape,
                                        .run = norm_run};

// ---- batch normalization by given statistics ----

static const carnot_cuda_kernel_id kBatchNorm[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REAL_TYPES(CARNOT_CUDA_BY_TYPE, batch_norm)};

typedef struct batch_norm_state {
  CUfunction function;
  carnot_cuda_batch_norm_params params;
} batch_norm_state;

static const char* batch_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_BATCH_NORM)) return "";
  const carnot_plan_node* node = &problem->region->nodes[0];
  carnot_cuda_want_row_major(problem);
  if (carnot_attr_int(carnot_op_get(node->op), &node->attrs, "training_mode") ||
      problem->output_count > 1)
    return "statistics of the batch";
  for (uint32_t i = 0; i < problem->input_count; i++)
    if (problem->inputs[i].format.dtype != problem->inputs[0].format.dtype)
      return "operands of several types";
  for (uint32_t i = 0; i < 5; i++)
    if (i >= problem->input_count || problem->inputs[i].kind != CARNOT_VALUE_TENSOR)
      return "an operand is absent";
  return carnot_cuda_not_real(&problem->inputs[0], reason, size);
}

static carnot_status* batch_norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->input_count == 5, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 5));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  batch_norm_state* s = state;
  int64_t channels = x->rank > 1 ? x->dims[1] : 1;
  for (int i = 1; i < 5; i++)
    CARNOT_CHECK(carnot_dims_count(inputs[i].dims, inputs[i].rank) == channels &&
                     inputs[i].format.dtype == x->format.dtype,
                 INVALID_ARGUMENT, "operand %d has other than %lld elements", i,
                 (long long)channels);
  *s = (batch_norm_state){
      .params = {
          .count = carnot_dims_count(x->dims, x->rank),
          .channels = channels,
          .spatial = x->rank > 1 ? carnot_dims_count(x->dims + 2, x->rank - 2) : 1,
          .eps = (float)carnot_attr_float(carnot_op_get(node->op), &node->attrs, "epsilon")}};
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kBatchNorm, x->format.dtype,
                                &s->function);
}

static carnot_status* batch_norm_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  batch_norm_state* s = state;
  s->params.x = inputs[0].data, s->params.scale = inputs[1].data, s->params.bias = inputs[2].data;
  s->params.mean = inputs[3].data, s->params.var = inputs[4].data, s->params.y = outputs[0].data;
  return carnot_cuda_launch_threads(step, s->function, s->params.count, &s->params);
}

const carnot_tactic carnot_cuda_batch_norm = {.name = "cuda_batch_norm",
                                              .anchor = CARNOT_OP_BATCH_NORM,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .device = true,
                                              .reject = batch_norm_reject,
                                              .configure = batch_norm_shape,
                                              .run = batch_norm_run};
