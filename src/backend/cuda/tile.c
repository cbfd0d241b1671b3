// Products with constant weights and convolutions channels last, of halves, by the own tile kernels
// (tile.cuh), with bias, residual and activation. One row a size of tile: the builder times them.
#include <stdio.h>
#include <string.h>

#include "backend/cuda/product.h"
#include "backend/cuda/window.h"

enum { kMaxSplits = 8, kLeastSteps = 2, kDepth = 64 };

typedef struct tile_size {
  int rows, columns, stages, threads;
} tile_size;

// What the region says: the same at build and when shapes are set.
typedef struct tile_parts {
  uint32_t x, weights, bias, residual;  // inputs of the step; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // the rest
} tile_parts;

typedef struct tile_params {
  uint32_t residual;
} tile_params;

typedef struct tile_state {
  CUfunction function;
  carnot_cuda_product params;
  int64_t grid[3];
  size_t shared_bytes;
  uint32_t x, bias, residual;
  carnot_cuda_chain_state chain;
} tile_state;
_Static_assert(sizeof(tile_state) <= CARNOT_STATE_BYTES, "the state has its size");

// ---- the region ----

static tile_parts of_conv(const carnot_cuda_conv* c) {
  return (tile_parts){.x = 0,
                      .weights = c->weights,
                      .bias = c->bias,
                      .residual = c->residual,
                      .activation = c->activation,
                      .chain = c->chain};
}

static bool takes_any(const carnot_cuda_epilogue* e) { return e->kind != 0; }

static tile_parts of_product(const carnot_cuda_product_region* p) {
  return (tile_parts){.x = p->a,
                      .weights = p->b,
                      .bias = p->c,
                      .residual = p->residual,
                      .activation = p->activation,
                      .chain = p->chain};
}

static const char* describe(const carnot_problem* problem, tile_parts* out, char* reason,
                            size_t size) {
  static const carnot_cuda_product_takes kAll = {true, takes_any};
  carnot_cuda_product_region p;
  carnot_cuda_conv c;
  if (problem->region->nodes[0].op == CARNOT_OP_CONV) {
    const char* why = carnot_cuda_conv_describe(problem, CARNOT_CUDA_TAKES_ALL, &c, reason, size);
    if (!why) *out = of_conv(&c);
    return why;
  }
  const char* why = carnot_cuda_product_describe(problem, &kAll, &p, reason, size);
  if (why) return why;
  if (p.trans_a || p.alpha != 1 || (p.c != CARNOT_PLAN_NONE && !p.c_is_bias))
    return "transposed rows, a factor, or a C that is no bias";
  *out = of_product(&p);
  return NULL;
}

// ---- build ----

static const char* reject_conv(carnot_problem* problem, const tile_parts* p, char* reason,
                               size_t size) {
  const carnot_operand_type *x = &problem->inputs[0], *w = &problem->inputs[p->weights];
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (x->rank != 4 || w->rank != 4) return carnot_cuda_because(reason, size, "rank %d", x->rank);
  if (carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group") != 1) return "groups";
  if (w->dims[1] % 8 || w->dims[0] % 8)
    return carnot_cuda_because(reason, size, "%lld channels to %lld, takes eights",
                               (long long)w->dims[1], (long long)w->dims[0]);
  problem->inputs[0].layout = problem->outputs[0].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = 1; i < problem->input_count; i++)
    if (!problem->inputs[i].is_constant) problem->inputs[i].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static const char* reject_product(const carnot_problem* problem, const tile_parts* p, char* reason,
                                  size_t size) {
  const carnot_operand_type *x = &problem->inputs[p->x], *w = &problem->inputs[p->weights];
  if (w->rank != 2 || x->rank < 2) return "weights of other than two dimensions, or a vector";
  if (w->dims[0] % 8 || w->dims[1] % 8)
    return carnot_cuda_because(reason, size, "weights of %lldx%lld, takes eights",
                               (long long)w->dims[0], (long long)w->dims[1]);
  return NULL;
}

// Sizes that others beat without being timed.
static const char* reject_size(const tile_size* tile, int64_t rows, int64_t columns, char* reason,
                               size_t size) {
  bool tall = tile->rows > 16 && rows <= tile->rows / 2;
  bool flat = tile->rows <= 32 && rows > 4 * tile->rows;
  bool wide = tile->columns > 32 && columns <= tile->columns / 2;
  bool narrow = tile->columns == 32 && columns > 128;
  if (!tall && !flat && !wide && !narrow) return NULL;
  return carnot_cuda_because(reason, size, "no size for %lldx%lld results", (long long)rows,
                             (long long)columns);
}

static int64_t places_of(const carnot_operand_type* y, bool conv) {
  int64_t rows = 1;
  for (int d = 0; d < y->rank; d++)
    if (d != (conv ? 1 : y->rank - 1)) rows *= y->dims[d];
  return rows;
}

static const char* tile_reject(carnot_problem* problem, const tile_size* tile, char* reason,
                               size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_CONV && !carnot_cuda_is_product(op)) return "";
  tile_parts p;
  const carnot_operand_type* y = &problem->outputs[0];
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  if (!carnot_cuda_is_half(y->dtype))
    return carnot_cuda_because(reason, size, "no kernel for %s", carnot_dtype_name(y->dtype));
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  const carnot_operand_type *x = &problem->inputs[p.x], *w = &problem->inputs[p.weights];
  if (x->dtype != y->dtype || w->dtype != y->dtype || !w->is_constant || !w->tensor ||
      !w->tensor->data)
    return "the weights are not constant";
  carnot_cuda_want_row_major(problem);
  bool conv = op == CARNOT_OP_CONV;
  why = conv ? reject_conv(problem, &p, reason, size) : reject_product(problem, &p, reason, size);
  return why ? why
             : reject_size(tile, places_of(y, conv), y->dims[conv ? 1 : y->rank - 1], reason, size);
}

// Weights of a product as [columns, depth].
static carnot_status* pack_product(const carnot_problem* problem, uint32_t weights,
                                   carnot_prepared* out) {
  const carnot_operand_type* w = &problem->inputs[weights];
  const carnot_plan_node* node = &problem->region->nodes[0];
  bool trans = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "transB") != 0;
  int64_t columns = w->dims[!trans], depth = w->dims[trans];
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(columns * depth), 2, "packed weights", &memory));
  const uint16_t* from = w->tensor->data;
  uint16_t* to = memory;
  for (int64_t n = 0; n < columns; n++)
    for (int64_t k = 0; k < depth; k++) *to++ = from[trans ? n * depth + k : k * columns + n];
  out->constants[out->constant_count].packing = "nk f16";
  out->constants[out->constant_count].data = memory;
  out->constants[out->constant_count++].bytes = (size_t)(columns * depth) * 2;
  return NULL;
}

static carnot_status* tile_prepare(const carnot_problem* problem, carnot_prepared* out) {
  tile_parts p;
  char reason[256];
  const char* why = describe(problem, &p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(tile_params), "parameters", &params));
  *(tile_params*)params = (tile_params){p.residual};
  out->params = params;
  out->param_bytes = sizeof(tile_params);
  out->packed_inputs = 1ull << p.weights;
  bool conv = problem->region->nodes[0].op == CARNOT_OP_CONV;
  CARNOT_TRY(conv ? carnot_cuda_conv_pack(&problem->inputs[p.weights], out)
                  : pack_product(problem, p.weights, out));
  return carnot_cuda_chain_prepare(problem, &p.chain, problem->outputs[0].dtype, out);
}

static carnot_status* tile_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(tile_params) && step->constant_count >= 1 &&
                   step->input_count <= 64,
               INVALID_MODEL, "%u bytes of parameters, %u constants, %u operands",
               step->param_bytes, step->constant_count, step->input_count);
  uint32_t residual = ((const tile_params*)step->params)->residual;
  CARNOT_CHECK(residual == CARNOT_PLAN_NONE || residual < step->input_count, INVALID_MODEL,
               "the residual is input %u of %u", residual, step->input_count);
  return NULL;
}

static bool tile_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = &step->region->nodes[0];
  return node->input_count < 2 || node->inputs[1] != input;
}

// ---- shape ----

static bool is_dense(const carnot_operand* t, bool channels_last) {
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = !channels_last ? i : i == t->rank - 1 ? 1 : i == 0 ? 0 : i + 1;
    if (t->dims[d] != 1 && t->strides[d] != stride) return false;
    stride *= t->dims[d];
  }
  return (uintptr_t)t->data % 16 == 0;
}

static carnot_status* set_conv(const carnot_step_view* step, const carnot_operand* inputs,
                               const carnot_operand* y, tile_parts* parts, carnot_cuda_product* t) {
  carnot_cuda_conv c;
  carnot_cuda_window v;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, y, CARNOT_CUDA_TAKES_ALL, &c));
  const carnot_operand *x = &inputs[0], *w = &inputs[c.weights];
  CARNOT_CHECK(x->rank == 4 && w->rank == 4, INVALID_ARGUMENT, "a convolution of rank %d", x->rank);
  CARNOT_TRY(carnot_cuda_window_make(&step->region->nodes[0], x, w, y, &v));
  *parts = of_conv(&c);
  CARNOT_CHECK(w->dims[0] == v.filters && w->dims[1] == v.channels, INVALID_ARGUMENT,
               "weights of %lld filters and %lld channels, not %lld and %lld",
               (long long)w->dims[0], (long long)w->dims[1], (long long)v.filters,
               (long long)v.channels);
  *t = (carnot_cuda_product){.rows = v.n * v.out[1] * v.out[2],
                             .filters = (int)v.filters,
                             .depth = (int)(v.channels * v.kernel[1] * v.kernel[2]),
                             .channels = (int)v.channels,
                             .pixel = (int)v.channels,
                             .in_rows = (int)v.in[1],
                             .in_columns = (int)v.in[2],
                             .out_rows = (int)v.out[1],
                             .out_columns = (int)v.out[2],
                             .kernel_columns = (int)v.kernel[2]};
  for (int d = 0; d < 2; d++) {
    t->step[d] = (int)v.step[d + 1], t->dilation[d] = (int)v.dilation[d + 1];
    t->begin[d] = (int)v.begin[d + 1];
  }
  return NULL;
}

static carnot_status* set_product(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* y, tile_parts* parts,
                                  carnot_cuda_product* t) {
  carnot_cuda_product_region p;
  CARNOT_TRY(carnot_cuda_product_of_step(
      step, inputs, y, ((const tile_params*)step->params)->residual, takes_any, &p));
  *parts = of_product(&p);
  const carnot_operand *x = &inputs[parts->x], *w = &inputs[parts->weights];
  CARNOT_CHECK(!p.trans_a && p.alpha == 1 && (p.c == CARNOT_PLAN_NONE || p.c_is_bias) &&
                   x->rank >= 2 && w->rank == 2 && w->dims[p.trans_b] == x->dims[x->rank - 1] &&
                   w->dims[!p.trans_b] == y->dims[y->rank - 1] && y->rank == x->rank,
               INVALID_ARGUMENT, "a product of ranks %d and %d", x->rank, w->rank);
  int64_t rows = carnot_dims_count(x->dims, x->rank - 1), depth = x->dims[x->rank - 1];
  CARNOT_CHECK(rows == carnot_dims_count(y->dims, y->rank - 1) && rows <= INT32_MAX,
               INVALID_ARGUMENT, "%lld rows", (long long)rows);
  *t = (carnot_cuda_product){.rows = rows,
                             .filters = (int)y->dims[y->rank - 1],
                             .depth = (int)depth,
                             .channels = (int)depth,
                             .pixel = (int)depth,
                             .in_rows = 1,
                             .in_columns = (int)rows,
                             .out_rows = 1,
                             .out_columns = (int)rows,
                             .kernel_columns = 1,
                             .step = {1, 1},
                             .dilation = {1, 1}};
  return NULL;
}

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* y, const tile_parts* p,
                                     const carnot_cuda_product* t) {
  bool conv = step->region->nodes[0].op == CARNOT_OP_CONV;
  const carnot_operand* x = &inputs[p->x];
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  CARNOT_CHECK(carnot_cuda_is_half(y->dtype) && x->dtype == y->dtype && t->filters % 8 == 0 &&
                   t->channels % 8 == 0 && t->rows <= INT32_MAX && is_dense(x, conv) &&
                   is_dense(y, conv) &&
                   step->constant_bytes[0] == (size_t)t->filters * (size_t)t->depth * 2,
               INVALID_ARGUMENT, "a product of %lld rows with weights %dx%d, dense and aligned",
               (long long)t->rows, t->filters, t->depth);
  if (p->bias != CARNOT_PLAN_NONE) {
    const carnot_operand* b = &inputs[p->bias];
    CARNOT_CHECK(carnot_dims_count(b->dims, b->rank) == t->filters && b->dtype == y->dtype &&
                     (uintptr_t)b->data % 16 == 0,
                 INVALID_ARGUMENT, "a bias of other than %d numbers", t->filters);
  }
  CARNOT_CHECK(p->residual == CARNOT_PLAN_NONE || is_dense(&inputs[p->residual], conv),
               INVALID_ARGUMENT, "the residual has another layout");
  return NULL;
}

// Depth is cut over the blocks of a cluster while multiprocessors would have nothing to do.
static int splits_of(const carnot_cuda* cuda, const tile_size* tile, int64_t tiles, int depth) {
  if (cuda->major < 9) return 1;
  bool large = tile->stages * CARNOT_CUDA_TILE_STAGE(tile->rows, tile->columns) > 110 << 10;
  int64_t slots = (int64_t)cuda->base.multiprocessor_count * (large ? 1 : 2);
  int steps = (int)carnot_ceildiv(depth, kDepth);
  int64_t splits = carnot_min_i64(carnot_min_i64(kMaxSplits, slots / tiles), steps / kLeastSteps);
  if (splits <= 1) return 1;
  return (int)carnot_ceildiv(steps, carnot_ceildiv(steps, splits));  // none is left without work
}

// No more stages than there are steps, so that more blocks find room.
static size_t shared_bytes_of(const tile_size* tile, int depth, int64_t splits) {
  int64_t steps = carnot_ceildiv(carnot_ceildiv(depth, kDepth), splits);
  int64_t stages = steps < tile->stages ? steps : tile->stages,
          bytes = stages * CARNOT_CUDA_TILE_STAGE(tile->rows, tile->columns),
          sums = CARNOT_CUDA_TILE_SUMS(tile->rows, tile->columns);
  return 1024 + (size_t)(bytes > sums ? bytes : sums);
}

static carnot_status* tile_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state, const tile_size* tile,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_operand* y = &outputs[0];
  tile_state* s = state;
  *s = (tile_state){.function = NULL};
  tile_parts parts;
  bool conv = step->region->nodes[0].op == CARNOT_OP_CONV;
  CARNOT_TRY((conv ? set_conv : set_product)(step, inputs, y, &parts, &s->params));
  CARNOT_TRY(check_operands(step, inputs, y, &parts, &s->params));
  s->x = parts.x, s->bias = parts.bias, s->residual = parts.residual;
  s->params.activation = (int)parts.activation.kind;
  s->params.low = parts.activation.low, s->params.high = parts.activation.high;
  int64_t down = carnot_ceildiv(s->params.rows, tile->rows),
          across = carnot_ceildiv(s->params.filters, tile->columns);
  s->params.prefetch = down <= 8;
  s->grid[0] = down * across, s->grid[1] = 1;
  s->grid[2] = s->grid[0] ? splits_of(cuda, tile, s->grid[0], s->params.depth) : 1;
  s->shared_bytes = shared_bytes_of(tile, s->params.depth, s->grid[2]);
  char name[32];
  snprintf(name, sizeof(name), "tile_%dx%d_%s", tile->rows, tile->columns,
           carnot_cuda_type(y->dtype));
  CARNOT_TRY(carnot_cuda_kernel(cuda, name, &s->function));
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     (int)shared_bytes_of(tile, INT32_MAX, 1)));
  return carnot_cuda_chain_shape(step, &parts.chain, inputs, outputs, &s->chain);
}

// ---- run ----

static carnot_status* tile_run(const carnot_step_view* step, tile_state* s,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               const tile_size* tile) {
  s->params.x = inputs[s->x].data, s->params.w = step->constants[0], s->params.y = outputs[0].data;
  s->params.bias = s->bias == CARNOT_PLAN_NONE ? NULL : inputs[s->bias].data;
  s->params.residual = s->residual == CARNOT_PLAN_NONE ? NULL : inputs[s->residual].data;
  const int64_t cluster[3] = {1, 1, s->grid[2]};
  if (s->grid[0])
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid, (unsigned)tile->threads,
                                           cluster, s->shared_bytes, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

static void tile_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  bool conv = problem->region->nodes[0].op == CARNOT_OP_CONV;
  (conv ? carnot_cuda_conv_work : carnot_cuda_product_work)(problem, out_flops, out_bytes);
}

#define TILE_ROW(height, width, stages)                                                          \
  static const tile_size kSize##height##x##width = {height, width, stages,                       \
                                                    CARNOT_CUDA_TILE_THREADS(height)};           \
  static const char* reject_##height##x##width(carnot_problem* problem, char* reason,            \
                                               size_t size) {                                    \
    return tile_reject(problem, &kSize##height##x##width, reason, size);                         \
  }                                                                                              \
  static carnot_status* shape_##height##x##width(                                                \
      const carnot_step_view* step, const carnot_operand* inputs, const carnot_operand* outputs, \
      void* state, size_t* out_workspace_bytes) {                                                \
    return tile_shape(step, inputs, outputs, state, &kSize##height##x##width,                    \
                      out_workspace_bytes);                                                      \
  }                                                                                              \
  static carnot_status* run_##height##x##width(                                                  \
      const carnot_step_view* step, void* state, const carnot_operand* inputs,                   \
      const carnot_operand* outputs, void* workspace, carnot_executor* executor) {               \
    (void)workspace, (void)executor;                                                             \
    return tile_run(step, state, inputs, outputs, &kSize##height##x##width);                     \
  }                                                                                              \
  const carnot_tactic_row carnot_cuda_tile_##height##x##width = {                                \
      .name = "cuda_tile_" #height "x" #width,                                                   \
      .anchor = CARNOT_OP_COUNT,                                                                 \
      .numerics = "exact",                                                                       \
      .device = true,                                                                            \
      .reject = reject_##height##x##width,                                                       \
      .prepare = tile_prepare,                                                                   \
      .check = tile_check,                                                                       \
      .reads = tile_reads,                                                                       \
      .shape = shape_##height##x##width,                                                         \
      .run = run_##height##x##width,                                                             \
      .work = tile_work};
CARNOT_CUDA_TILES(TILE_ROW)
