// What the tensor core GEMMs with constant weights share: matching, packing, kernel parameters.
#include "backend/cuda/gemm/gemm_tile_common.h"

#include <string.h>

#include "backend/cuda/conv/conv.h"
#include "backend/cuda/gemm/gemm_epilogue.h"
#include "backend/cuda/gemm/gemm_fp8.h"
#include "backend/cuda/gemm/gemm_shape.h"
#include "backend/cuda/gemm/weight_transpose.h"
#include "backend/cuda/quantize/int8_region.h"

typedef struct tile_params {
  uint32_t residual;
} tile_params;

// ---- the region ----

static carnot_cuda_gemm_tile_region of_conv(const carnot_cuda_conv* c) {
  return (carnot_cuda_gemm_tile_region){.x = 0,
                                        .weights = c->weights,
                                        .bias = c->bias,
                                        .residual = c->residual,
                                        .activation = c->activation,
                                        .chain = c->chain};
}

static const carnot_epilogue_mask kEpilogue = {CARNOT_EPILOGUE_ONE_BIAS, /*residual=*/true,
                                               CARNOT_CUDA_FUSED_ACTIVATIONS};

static carnot_cuda_gemm_tile_region of_gemm(const carnot_cuda_gemm_region* p) {
  return (carnot_cuda_gemm_tile_region){.x = p->gemm.a,
                                        .weights = p->gemm.b,
                                        .bias = p->c,
                                        .residual = p->residual,
                                        .activation = p->activation,
                                        .chain = p->chain};
}

static const char* read_region(const carnot_problem* problem, carnot_cuda_gemm_tile_region* out,
                               char* reason, size_t size) {
  carnot_cuda_gemm_region p;
  carnot_cuda_conv c;
  if (problem->region->nodes[0].op == CARNOT_OP_CONV) {
    const char* why = carnot_cuda_conv_read(problem, &kEpilogue, &c, reason, size);
    if (!why) *out = of_conv(&c);
    return why;
  }
  const char* why = carnot_cuda_gemm_read(problem, &kEpilogue, &p, reason, size);
  if (why) return why;
  if (p.gemm.trans_a || p.gemm.alpha != 1 || (p.c != CARNOT_PLAN_NONE && !p.c_is_bias))
    return "A is transposed, alpha is not 1, or C is no bias";
  *out = of_gemm(&p);
  return NULL;
}

// Sequences are images of one row.
static bool is_conv_rank(int rank) { return rank == 3 || rank == 4; }

// ---- build ----

static int64_t groups_of(const carnot_problem* problem) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  return node->op == CARNOT_OP_CONV
             ? carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group")
             : 1;
}

// How many groups become one: as many as fill the columns of a tile (0: all), at least as many as
// make channels and filters eights; 0: none do.
static int64_t joined_of(const carnot_operand_desc* w, int64_t groups, int columns) {
  int64_t found = 0;
  for (int64_t j = 1; j <= groups; j++) {
    int64_t filters = w->dims[0] / groups * j;
    bool fits = groups % j == 0 && w->dims[1] * j % 8 == 0 && (groups == 1 || filters % 8 == 0);
    if (fits && (!found || !columns || filters <= columns)) found = j;
  }
  return !columns && found != groups ? 0 : found;
}

static const char* reject_conv(carnot_problem* problem, int columns,
                               carnot_cuda_gemm_tile_region* p, char* reason, size_t size) {
  // More products with zeros than these cost more than a library's kernel.
  enum { kMostJoined = 8 };
  const carnot_operand_desc *x = &problem->inputs[0], *w = &problem->inputs[p->weights];
  if (!is_conv_rank(x->rank) || w->rank != x->rank)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 and 4", x->rank);
  const int64_t groups = groups_of(problem);
  if (groups < 1 || w->dims[0] % groups || (groups > 1 && w->dims[1] == 1))
    return "groups of one channel";
  const int64_t joined = joined_of(w, groups, columns);
  if (!joined || (!columns && groups > kMostJoined))
    return carnot_cuda_reject_reason(reason, size, "%lld channels to %lld in %lld groups%s",
                                     (long long)(w->dims[1] * groups), (long long)w->dims[0],
                                     (long long)groups, joined ? "" : ", takes eights");
  p->columns = w->dims[0] / groups * joined, p->channels = w->dims[1] * joined;
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = 1; i < problem->input_count; i++)
    if (!problem->inputs[i].is_constant)
      problem->inputs[i].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static const char* reject_gemm(const carnot_problem* problem, const carnot_cuda_gemm_tile_region* p,
                               char* reason, size_t size) {
  const carnot_operand_desc *x = &problem->inputs[p->x], *w = &problem->inputs[p->weights];
  if (w->rank != 2 || x->rank < 2) return "weights of other than two dimensions, or a vector";
  if (x->dims[x->rank - 1] % 8)
    return carnot_cuda_reject_reason(reason, size, "depth %lld, takes eights",
                                     (long long)x->dims[x->rank - 1]);
  return NULL;
}

static int64_t rows_of(const carnot_operand_desc* y, bool conv) {
  int64_t rows = 1;
  for (int d = 0; d < y->rank; d++)
    if (d != (conv ? 1 : y->rank - 1)) rows *= y->dims[d];
  return rows;
}

const char* carnot_cuda_gemm_tile_reject(carnot_problem* problem, int columns,
                                         carnot_cuda_gemm_tile_region* out, char* reason,
                                         size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (carnot_cuda_is_fp8_region(problem->region, problem->inputs, problem->input_count))
    return carnot_cuda_gemm_fp8_reject(problem, out, reason, size);
  if (op != CARNOT_OP_CONV && !carnot_is_gemm(op)) return "";
  const carnot_operand_desc* y = &problem->outputs[0];
  if (!carnot_cuda_is_half(y->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(y->format.dtype));
  const char* why = read_region(problem, out, reason, size);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[out->x], *w = &problem->inputs[out->weights];
  if (x->format.dtype != y->format.dtype || w->format.dtype != y->format.dtype ||
      !carnot_is_known(w))
    return "the weights are not constant";
  carnot_cuda_want_row_major(problem);
  bool conv = op == CARNOT_OP_CONV;
  out->rows = rows_of(y, conv), out->columns = y->dims[conv ? 1 : y->rank - 1];
  return conv ? reject_conv(problem, columns, out, reason, size)
              : reject_gemm(problem, out, reason, size);
}

// GEMM weights as [columns, depth].
static carnot_status* pack_gemm(const carnot_problem* problem, uint32_t weights,
                                carnot_prepared* out) {
  const carnot_operand_desc* w = &problem->inputs[weights];
  const carnot_plan_node* node = &problem->region->nodes[0];
  bool trans = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "transB") != 0;
  int64_t columns = w->dims[!trans], depth = w->dims[trans];
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(columns * depth), 2, "packed weights", &memory));
  const size_t bytes = (size_t)(columns * depth) * 2;
  if (trans)
    memcpy(memory, w->tensor->data, bytes);
  else
    carnot_cuda_transpose_weights_16(w->tensor->data, depth, columns, depth, memory);
  out->constants[out->constant_count].packing = "nk f16";
  out->constants[out->constant_count].data = memory;
  out->constants[out->constant_count++].bytes = bytes;
  return NULL;
}

carnot_status* carnot_cuda_gemm_tile_prepare(const carnot_problem* problem, int columns,
                                             carnot_prepared* out) {
  if (carnot_cuda_is_fp8_region(problem->region, problem->inputs, problem->input_count))
    return carnot_cuda_gemm_fp8_prepare(problem, out);
  carnot_cuda_gemm_tile_region p;
  char reason[256];
  const char* why = read_region(problem, &p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(tile_params), "parameters", &params));
  *(tile_params*)params = (tile_params){p.residual};
  out->params = params;
  out->param_bytes = sizeof(tile_params);
  out->packed_inputs = 1ull << p.weights;
  bool conv = problem->region->nodes[0].op == CARNOT_OP_CONV;
  const carnot_operand_desc* w = &problem->inputs[p.weights];
  const int64_t groups = groups_of(problem);
  CARNOT_TRY(conv ? carnot_cuda_conv_pack(w, groups, joined_of(w, groups, columns), out)
                  : pack_gemm(problem, p.weights, out));
  return carnot_cuda_chain_prepare(problem, &p.chain, problem->outputs[0].format.dtype, out);
}

carnot_status* carnot_cuda_gemm_tile_check(const carnot_step_view* step) {
  if (carnot_cuda_is_fp8_step(step)) return carnot_cuda_gemm_fp8_check(step, sizeof(float));
  CARNOT_CHECK(step->param_bytes == sizeof(tile_params) && step->constant_count >= 1 &&
                   step->input_count <= 64,
               INVALID_MODEL, "%u bytes of parameters, %u constants, %u operands",
               step->param_bytes, step->constant_count, step->input_count);
  uint32_t residual = ((const tile_params*)step->params)->residual;
  CARNOT_CHECK(residual == CARNOT_PLAN_NONE || residual < step->input_count, INVALID_MODEL,
               "the residual is input %u of %u", residual, step->input_count);
  return NULL;
}

bool carnot_cuda_gemm_tile_uses_input(const carnot_step_view* step, uint32_t input) {
  return carnot_cuda_is_fp8_step(step) ? carnot_cuda_gemm_fp8_uses_input(step, input)
                                       : carnot_cuda_conv_packed_reads(step, input);
}

// ---- shape ----

static carnot_status* set_conv(const carnot_step_view* step, const carnot_operand* inputs,
                               const carnot_operand* y, carnot_cuda_gemm_tile_region* parts,
                               carnot_cuda_gemm_tile_step* out) {
  carnot_cuda_gemm_tile_params* t = &out->params;
  carnot_cuda_conv c;
  carnot_cuda_sliding_window v;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, y, &kEpilogue, &c));
  const carnot_operand *x = &inputs[0], *w = &inputs[c.weights];
  CARNOT_CHECK(is_conv_rank(x->rank) && w->rank == x->rank, INVALID_ARGUMENT,
               "a convolution of rank %d", x->rank);
  CARNOT_TRY(carnot_cuda_sliding_window_make(&step->region->nodes[0], x, w, y, &v));
  *parts = of_conv(&c);
  const int64_t groups = c.problem.group;
  CARNOT_CHECK(groups > 0 && w->dims[0] == v.filters && w->dims[1] * groups == v.channels &&
                   v.filters > 0 && v.channels > 0 && v.filters % groups == 0,
               INVALID_ARGUMENT,
               "weights of %lld filters and %lld channels in %lld groups, not %lld and %lld",
               (long long)w->dims[0], (long long)w->dims[1], (long long)groups,
               (long long)v.filters, (long long)v.channels);
  // What was packed says how many groups were joined.
  const int64_t taps = v.kernel[1] * v.kernel[2],
                channels = (int64_t)step->constant_bytes[0] / (2 * v.filters * taps),
                joined = channels / w->dims[1];
  CARNOT_CHECK(joined > 0 && channels == joined * w->dims[1] && groups % joined == 0 &&
                   (groups == 1 || v.filters / groups * joined % 8 == 0),
               INVALID_ARGUMENT, "packed weights of %lld channels for groups of %lld",
               (long long)channels, (long long)w->dims[1]);
  *t = (carnot_cuda_gemm_tile_params){.rows = v.n * v.out[1] * v.out[2],
                                      .filters = (int)v.filters,
                                      .depth = (int)(channels * taps),
                                      .group_filters = (int)(v.filters / groups * joined),
                                      .channels = (int)channels,
                                      .pixel = (int)carnot_cuda_row_pitch(x, true),
                                      .pitch = (int)carnot_cuda_row_pitch(y, true),
                                      .in_rows = (int)v.in[1],
                                      .in_columns = (int)v.in[2],
                                      .out_rows = (int)v.out[1],
                                      .out_columns = (int)v.out[2],
                                      .kernel_columns = (int)v.kernel[2]};
  for (int d = 0; d < 2; d++) {
    t->step[d] = (int)v.step[d + 1], t->dilation[d] = (int)v.dilation[d + 1];
    t->begin[d] = (int)v.begin[d + 1];
  }
  out->images = (int)v.n, out->taps = (int)(v.kernel[1] * v.kernel[2]);
  out->is_window = out->taps > 1 || t->step[0] != 1 || t->step[1] != 1 || t->begin[0] ||
                   t->begin[1] || t->out_rows != t->in_rows || t->out_columns != t->in_columns;
  return NULL;
}

static carnot_status* set_gemm(const carnot_step_view* step, const carnot_operand* inputs,
                               const carnot_operand* y, carnot_cuda_gemm_tile_region* parts,
                               carnot_cuda_gemm_tile_step* out) {
  carnot_cuda_gemm_region p;
  CARNOT_TRY(carnot_cuda_gemm_of_step(step, inputs, y, ((const tile_params*)step->params)->residual,
                                      &kEpilogue, &p));
  *parts = of_gemm(&p);
  const carnot_operand *x = &inputs[parts->x], *w = &inputs[parts->weights];
  CARNOT_CHECK(!p.gemm.trans_a && p.gemm.alpha == 1 && (p.c == CARNOT_PLAN_NONE || p.c_is_bias) &&
                   x->rank >= 2 && w->rank == 2 &&
                   w->dims[p.gemm.trans_b] == x->dims[x->rank - 1] &&
                   w->dims[!p.gemm.trans_b] == y->dims[y->rank - 1] && y->rank == x->rank,
               INVALID_ARGUMENT, "a GEMM of ranks %d and %d", x->rank, w->rank);
  int64_t rows = carnot_dims_count(x->dims, x->rank - 1), depth = x->dims[x->rank - 1];
  CARNOT_CHECK(rows == carnot_dims_count(y->dims, y->rank - 1) && rows <= INT32_MAX,
               INVALID_ARGUMENT, "%lld rows", (long long)rows);
  out->images = out->taps = 1;
  out->params = carnot_cuda_gemm_tile_rows(rows, y->dims[y->rank - 1], depth);
  out->params.pixel = (int)carnot_cuda_row_pitch(x, false);
  out->params.pitch = (int)carnot_cuda_row_pitch(y, false);
  return NULL;
}

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* y, const carnot_cuda_gemm_tile_region* p,
                                     const carnot_cuda_gemm_tile_params* t) {
  bool conv = step->region->nodes[0].op == CARNOT_OP_CONV;
  const carnot_operand* x = &inputs[p->x];
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  // Filters that are no eights are stored one by one, row behind row.
  CARNOT_CHECK(carnot_cuda_is_half(y->format.dtype) && x->format.dtype == y->format.dtype &&
                   t->channels % 8 == 0 && t->rows <= INT32_MAX && t->pixel && t->pitch &&
                   (t->filters % 8 == 0 || t->pitch == t->filters) &&
                   step->constant_bytes[0] == (size_t)t->filters * (size_t)t->depth * 2,
               INVALID_ARGUMENT,
               "a GEMM of %lld rows with weights %dx%d, rows aligned and evenly apart",
               (long long)t->rows, t->filters, t->depth);
  if (p->bias != CARNOT_PLAN_NONE) {
    const carnot_operand* b = &inputs[p->bias];
    CARNOT_CHECK(carnot_dims_count(b->dims, b->rank) == t->filters &&
                     b->format.dtype == y->format.dtype && (uintptr_t)b->data % 16 == 0,
                 INVALID_ARGUMENT, "a bias of other than %d numbers", t->filters);
  }
  CARNOT_CHECK(p->residual == CARNOT_PLAN_NONE || carnot_cuda_is_dense(&inputs[p->residual], conv),
               INVALID_ARGUMENT, "the residual has another layout");
  return NULL;
}

carnot_status* carnot_cuda_gemm_tile_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs,
                                           carnot_cuda_gemm_tile_step* out) {
  if (carnot_cuda_is_fp8_step(step)) return carnot_cuda_gemm_fp8_shape(step, inputs, outputs, out);
  const carnot_operand* y = &outputs[0];
  carnot_cuda_gemm_tile_region parts;
  bool conv = step->region->nodes[0].op == CARNOT_OP_CONV;
  *out = (carnot_cuda_gemm_tile_step){.taps = 0};
  CARNOT_TRY((conv ? set_conv : set_gemm)(step, inputs, y, &parts, out));
  CARNOT_TRY(check_operands(step, inputs, y, &parts, &out->params));
  out->x = parts.x, out->bias = parts.bias, out->residual = parts.residual;
  out->operand = y->format.dtype;
  out->types = y->format.dtype == CARNOT_DTYPE_F16 ? CARNOT_CUDA_TILE_F16 : CARNOT_CUDA_TILE_BF16;
  out->params.activation = (int)parts.activation.kind;
  out->params.low = parts.activation.low, out->params.high = parts.activation.high;
  return carnot_cuda_chain_shape(step, &parts.chain, inputs, outputs, &out->chain);
}

void carnot_cuda_gemm_tile_bind(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, carnot_cuda_gemm_tile_step* t) {
  carnot_cuda_gemm_tile_params* p = &t->params;
  p->x = inputs[t->x].data, p->w = step->constants[0], p->y = outputs[0].data;
  p->bias = t->bias == CARNOT_PLAN_NONE ? NULL : inputs[t->bias].data;
  p->residual = t->residual == CARNOT_PLAN_NONE ? NULL : inputs[t->residual].data;
  if (carnot_cuda_is_fp8_step(step)) carnot_cuda_gemm_fp8_bind(step, p);
}

void carnot_cuda_gemm_tile_work(const carnot_problem* problem, double* out_flops,
                                double* out_bytes) {
  const carnot_op op = problem->region->nodes[0].op;
  if (op == CARNOT_OP_DEQUANTIZE_LINEAR)
    carnot_cuda_quantized_work(problem, out_flops, out_bytes);
  else
    (op == CARNOT_OP_CONV ? carnot_cuda_conv_work : carnot_cuda_gemm_work)(problem, out_flops,
                                                                           out_bytes);
}
