// Reads attention regions: GEMM, scale, mask, softmax, GEMM, with the transposes and slices around
// them as views of the inputs; and the extents of the heads when shapes are set.
#include "tactic/problem/attention.h"

#include <stdio.h>

typedef struct reader {
  const carnot_problem* problem;
  char* reason;
  size_t size;
  float scale;
  carnot_dtype dtype;
  carnot_attention_conversions* bytes;  // NULL: no operand is quantized
  carnot_attention_mixes* mixes;        // NULL: heads are not mixed
  carnot_quantized_end* out;            // NULL: the result is not quantized
} reader;

static const char* because(reader* r, const char* format, const char* word) {
  snprintf(r->reason, r->size, format, word);
  return r->reason;
}

static const carnot_plan_node* producer_of(const carnot_problem* p, uint32_t local) {
  for (uint32_t n = 0; n < p->region->node_count; n++)
    for (uint32_t i = 0; i < p->region->nodes[n].output_count; i++)
      if (p->region->nodes[n].outputs[i] == local) return &p->region->nodes[n];
  return NULL;
}

static const carnot_operand_desc* type_of(const carnot_problem* p, uint32_t local) {
  return local < p->input_count ? &p->inputs[local] : &p->inner[local - p->input_count];
}

static carnot_fn fn_of(const carnot_plan_node* node) {
  if (!node || (node->op != CARNOT_OP_UNARY && node->op != CARNOT_OP_BINARY &&
                node->op != CARNOT_OP_TERNARY))
    return CARNOT_FN_COUNT;
  return (carnot_fn)carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn");
}

static bool scalar_of(const carnot_problem* p, uint32_t local, float* out) {
  const carnot_operand_desc* t = local < p->input_count ? &p->inputs[local] : NULL;
  if (!t || !carnot_is_known(t) || !carnot_dtype_is_float(t->format.dtype) ||
      carnot_tensor_count(t->tensor) != 1)
    return false;
  *out = (float)carnot_load_f64(t->format.dtype, t->tensor->data, 0);
  return true;
}

// Behind a scale by a constant: the other operand, and the factor taken into |scale|.
static bool take_scale(reader* r, const carnot_plan_node* node, uint32_t* local) {
  carnot_fn fn = fn_of(node);
  float factor;
  if (fn != CARNOT_FN_MUL && fn != CARNOT_FN_DIV) return false;
  int at = scalar_of(r->problem, node->inputs[1], &factor)                          ? 0
           : fn == CARNOT_FN_MUL && scalar_of(r->problem, node->inputs[0], &factor) ? 1
                                                                                    : -1;
  if (at < 0) return false;
  r->scale = fn == CARNOT_FN_MUL ? r->scale * factor : r->scale / factor;
  if (r->bytes) r->bytes->divides = fn == CARNOT_FN_DIV, r->bytes->factor = factor;
  *local = node->inputs[at];
  return true;
}

static int source_axis(const carnot_plan_node* node, int rank, int axis) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  return perm && count == (size_t)rank ? (int)perm[axis] : rank - 1 - axis;
}

static bool int_of(const carnot_problem* p, uint32_t local, int64_t* out) {
  const carnot_operand_desc* t = local < p->input_count ? &p->inputs[local] : NULL;
  if (!t || !carnot_is_known(t) || !carnot_dtype_is_integer(t->format.dtype) ||
      carnot_tensor_count(t->tensor) != 1)
    return false;
  *out = carnot_load_i64(t->format.dtype, t->tensor->data, 0);
  return true;
}

static const carnot_quantized_end kNone = {CARNOT_PLAN_NONE, CARNOT_PLAN_NONE};

static bool is_float(const carnot_quantized_end* end) { return !carnot_is_end_bytes(end); }

// Behind the cast between a 16-bit float and float32, in which values are converted to bytes.
static const carnot_plan_node* behind_cast(const reader* r, const carnot_plan_node* node) {
  const bool is_cast = node && node->op == CARNOT_OP_CAST && carnot_dtype_is_half(r->dtype);
  return is_cast ? producer_of(r->problem, node->inputs[0]) : node;
}

// Behind a value that is quantized and dequantized again: its producer, and the conversion in
// |out|. *node stays where it is not.
static bool skip_conversions(const reader* r, const carnot_plan_node** node,
                             carnot_quantized_end* out) {
  const uint32_t inputs = r->problem->input_count;
  carnot_quantized_end up;
  const carnot_plan_node* from = r->bytes ? behind_cast(r, *node) : NULL;
  if (!from || from->op != CARNOT_OP_DEQUANTIZE_LINEAR) return true;
  const carnot_plan_node* down = producer_of(r->problem, from->inputs[0]);
  if (!down || down->op != CARNOT_OP_QUANTIZE_LINEAR || !is_float(out) ||
      !carnot_quantized_end_read(from, inputs, &up) ||
      !carnot_quantized_end_read(down, inputs, out) ||
      !carnot_is_same_number(r->problem, up.scale, out->scale) ||
      !carnot_is_same_number(r->problem, up.zero, out->zero))
    return false;
  *node = behind_cast(r, producer_of(r->problem, down->inputs[0]));
  return true;
}

// Neighbours along one axis of an input.
static bool read_cut(const carnot_problem* p, const carnot_plan_node* node,
                     carnot_attention_view* out) {
  int64_t axis, first, last;
  if (node->op != CARNOT_OP_SLICE || node->input_count != 4 || node->inputs[0] >= p->input_count ||
      !int_of(p, node->inputs[1], &first) || !int_of(p, node->inputs[2], &last) ||
      !int_of(p, node->inputs[3], &axis))
    return false;
  const carnot_operand_desc* t = &p->inputs[node->inputs[0]];
  if (axis < 0 || axis >= t->rank || first < 0 || last <= first || last > t->dims[axis])
    return false;
  out->cut = (int32_t)axis, out->first = first, out->count = last - first;
  return true;
}

static const char* not_taken(reader* r, const carnot_operand_desc* t, carnot_dtype dtype, int low,
                             int high) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < low || t->rank > high)
    return "an operand has another rank";
  const bool stands_for = dtype == CARNOT_DTYPE_F32 && carnot_is_f32_value(r->problem, t);
  return t->format.dtype == dtype || stands_for
             ? NULL
             : because(r, "an operand is %s", carnot_dtype_name(t->format.dtype));
}

// From an operand of a GEMM back to an input of the step. |swapped|: the head's elements run
// along its last axis but one. |end|: of bytes, the conversion to float32; else NULL.
static const char* read_view(reader* r, uint32_t local, bool swapped, carnot_quantized_end* end,
                             carnot_attention_view* out) {
  const carnot_plan_node* node = producer_of(r->problem, local);
  if (end) {
    while (carnot_dtype_is_half(r->dtype) && node) {
      if (node->op == CARNOT_OP_CAST)
        local = node->inputs[0];
      else if (!take_scale(r, node, &local))
        break;
      node = producer_of(r->problem, local);
    }
    if (!node || node->op != CARNOT_OP_DEQUANTIZE_LINEAR ||
        !carnot_quantized_end_read(node, r->problem->input_count, end))
      return "an operand is not dequantized with one scale";
    local = node->inputs[0];
  }
  const carnot_plan_node* permuted = NULL;
  *out = (carnot_attention_view){.cut = -1};
  while ((node = producer_of(r->problem, local)) != NULL) {
    if (read_cut(r->problem, node, out)) {
      local = node->inputs[0];
      break;
    }
    if (permuted) return "an operand is permuted twice";
    if (take_scale(r, node, &local)) continue;
    if (node->op == CARNOT_OP_TRANSPOSE) {
      int rank = type_of(r->problem, node->inputs[0])->rank;
      bool swaps = rank >= 2;
      for (int d = 0; d + 2 < rank; d++) swaps = swaps && source_axis(node, rank, d) == d;
      if (!swaps)
        permuted = node;
      else
        swapped ^= source_axis(node, rank, rank - 1) != rank - 1;
    } else if (node->op != CARNOT_OP_RESHAPE && node->op != CARNOT_OP_SQUEEZE &&
               node->op != CARNOT_OP_UNSQUEEZE) {
      return because(r, "%s before a GEMM", carnot_op_get(node->op)->name);
    }
    local = node->inputs[0];
  }
  if (local >= r->problem->input_count) return "an operand is no input";
  const carnot_operand_desc* t = &r->problem->inputs[local];
  const bool is_half = carnot_dtype_is_half(r->dtype);
  if (end && is_half && t->format.dtype != CARNOT_DTYPE_F8E4M3FN) return "an operand is not FP8";
  if (end && !is_half && !carnot_is_8bit(t->format.dtype)) return "an operand is not int8 or uint8";
  const char* why = not_taken(r, t, end ? t->format.dtype : r->dtype, 2, CARNOT_MAX_RANK);
  if (why) return why;
  out->input = (int32_t)local;
  out->rank = t->rank;
  for (int d = 0; d < t->rank; d++) {
    int axis = swapped && d >= t->rank - 2 ? 2 * t->rank - 3 - d : d;
    out->perm[d] = permuted ? source_axis(permuted, t->rank, axis) : axis;
  }
  if (out->cut == out->perm[t->rank - 1]) return "a head is cut";
  return out->perm[t->rank - 1] == t->rank - 1 ? NULL : "the elements of a head are apart";
}

static bool is_matmul(const carnot_plan_node* node) { return node && node->op == CARNOT_OP_MATMUL; }

static bool is_transposed(const carnot_plan_node* matmul) {
  return carnot_attr_int(carnot_op_get(matmul->op), &matmul->attrs, "transB") != 0;
}

// The weights' producer, behind a guard against rows without a key.
static const carnot_plan_node* read_guard(const carnot_problem* p, const carnot_plan_node* node,
                                          int32_t* zero_empty) {
  float zero;
  if (fn_of(node) != CARNOT_FN_SELECT) return node;
  const carnot_plan_node* test = producer_of(p, node->inputs[0]);
  if (fn_of(test) != CARNOT_FN_IS_NAN || test->inputs[0] != node->inputs[2] ||
      !scalar_of(p, node->inputs[1], &zero) || zero != 0)
    return NULL;
  *zero_empty = 1;
  return producer_of(p, node->inputs[2]);
}

// A mask may be cast to the type of the scores inside.
static uint32_t mask_of(const carnot_problem* p, uint32_t local) {
  const carnot_plan_node* node = producer_of(p, local);
  return node && node->op == CARNOT_OP_CAST ? node->inputs[0] : local;
}

// Behind a product over the heads: its operand's producer, in *node. |at|: 1 behind the softmax.
static const char* skip_mix(reader* r, const carnot_plan_node** node, int at) {
  const carnot_problem* p = r->problem;
  const carnot_plan_node* mix = *node;
  if (!mix || mix->op != CARNOT_OP_MIX_HEADS) return NULL;
  if (!r->mixes) return "heads are mixed";
  const bool has_bias = mix->input_count > 2 && mix->inputs[2] != CARNOT_PLAN_NONE;
  if (mix->inputs[1] >= p->input_count || (has_bias && mix->inputs[2] >= p->input_count) ||
      type_of(p, mix->inputs[0])->rank != 4)
    return "the weights of heads are no inputs, or the scores are not of rank 4";
  const carnot_operand_desc* w = &p->inputs[mix->inputs[1]];
  const char* why = not_taken(r, w, r->dtype, 2, 2);
  if (why) return why;
  if (w->dims[0] != w->dims[1]) return "the number of heads changes";
  r->mixes->weights[at] = (int32_t)mix->inputs[1];
  r->mixes->bias[at] = has_bias ? (int32_t)mix->inputs[2] : -1;
  *node = producer_of(p, mix->inputs[0]);
  return NULL;
}

static const char* read_scores(reader* r, const carnot_plan_node* softmax,
                               carnot_attention_params* out) {
  const carnot_problem* p = r->problem;
  uint32_t local = softmax->inputs[0];
  int rank = type_of(p, local)->rank;
  int64_t axis = carnot_attr_int(carnot_op_get(softmax->op), &softmax->attrs, "axis");
  if (rank < 3 || (axis != -1 && axis != rank - 1)) return "the softmax is not along the last axis";
  const carnot_plan_node* node = producer_of(p, local);
  carnot_attention_conversions* bytes = r->bytes;
  const char* mixed = skip_mix(r, &node, 0);
  if (mixed) return mixed;
  if (bytes && !skip_conversions(r, &node, &bytes->masked))
    return "the scores are converted with several scales";
  out->mask = -1;
  if (fn_of(node) == CARNOT_FN_ADD) {
    bool second = mask_of(p, node->inputs[1]) < p->input_count;
    uint32_t mask = mask_of(p, node->inputs[second]);
    if (mask >= p->input_count) return "the mask is no input";
    carnot_dtype dtype =
        p->inputs[mask].format.dtype == CARNOT_DTYPE_F32 ? CARNOT_DTYPE_F32 : r->dtype;
    const char* why = not_taken(r, &p->inputs[mask], dtype, 1, rank);
    if (why) return why;
    out->mask = (int32_t)mask;
    node = producer_of(p, node->inputs[!second]);
    if (bytes && !skip_conversions(r, &node, &bytes->scaled))
      return "the scores are converted with several scales";
  } else if (bytes) {
    bytes->scaled = bytes->masked;
    bytes->masked = kNone;
  }
  const bool is_scaled = node && take_scale(r, node, &local);
  if (is_scaled) node = producer_of(p, local);
  if (bytes && !is_scaled) {
    bytes->scores = bytes->scaled;
    bytes->scaled = kNone;
  } else if (bytes && !skip_conversions(r, &node, &bytes->scores)) {
    return "the scores are converted with several scales";
  }
  if (!is_matmul(node)) return "no GEMM of queries and keys";
  const char* why = read_view(r, node->inputs[0], false, bytes ? &bytes->q : NULL, &out->q);
  return why ? why
             : read_view(r, node->inputs[1], !is_transposed(node), bytes ? &bytes->k : NULL,
                         &out->k);
}

// Behind the quantize node of the result, once, and the cast to float32 before it.
static const char* skip_quantize(reader* r, const carnot_plan_node** node) {
  const carnot_problem* p = r->problem;
  if (!r->out || !is_float(r->out) || !*node || (*node)->op != CARNOT_OP_QUANTIZE_LINEAR)
    return NULL;
  if (!carnot_quantized_end_read(*node, p->input_count, r->out))
    return "the result is quantized with several scales";
  const uint32_t value = (*node)->inputs[0];
  *node = producer_of(p, value);
  if (*node && (*node)->op == CARNOT_OP_CAST && type_of(p, value)->format.dtype == CARNOT_DTYPE_F32)
    *node = producer_of(p, (*node)->inputs[0]);
  return NULL;
}

static const char* read_region(reader* r, carnot_attention_params* out) {
  const carnot_problem* problem = r->problem;
  const carnot_region* region = problem->region;
  carnot_attention_conversions* bytes = r->bytes;
  *out = (carnot_attention_params){.scale = 1, .out.cut = -1};
  if (region->output_count != 1) return "an inner value is read outside the region";
  const carnot_plan_node* node = producer_of(problem, region->outputs[0]);
  out->out.rank = problem->outputs[0].rank;
  for (int d = 0; d < out->out.rank; d++) out->out.perm[d] = d;
  const char* why = skip_quantize(r, &node);
  if (why) return why;
  if (node && node->op == CARNOT_OP_TRANSPOSE) {
    for (int d = 0; d < out->out.rank; d++) out->out.perm[source_axis(node, out->out.rank, d)] = d;
    node = producer_of(problem, node->inputs[0]);
  }
  why = skip_quantize(r, &node);
  if (why) return why;
  if (!is_matmul(node) || is_transposed(node) || out->out.rank < 3 ||
      out->out.perm[out->out.rank - 1] != out->out.rank - 1)
    return "no GEMM of weights and values";
  why = read_view(r, node->inputs[1], false, bytes ? &bytes->v : NULL, &out->v);
  if (why) return why;
  if (r->scale != 1) return "the values are scaled";
  node = producer_of(problem, node->inputs[0]);
  if (bytes && !skip_conversions(r, &node, &bytes->weights))
    return "the weights are converted with several scales";
  why = skip_mix(r, &node, 1);
  if (why) return why;
  const carnot_plan_node* softmax = node ? read_guard(problem, node, &out->zero_empty) : NULL;
  if (!softmax || softmax->op != CARNOT_OP_SOFTMAX) return "no softmax";
  why = read_scores(r, softmax, out);
  out->scale = r->scale;
  return why;
}

const char* carnot_attention_read(const carnot_problem* problem, carnot_dtype dtype,
                                  carnot_attention_params* out, char* reason, size_t size) {
  reader r = {problem, reason, size, 1, dtype, NULL, NULL, NULL};
  return read_region(&r, out);
}

const char* carnot_attention_read_quantized(const carnot_problem* problem, carnot_dtype dtype,
                                            carnot_attention_params* out,
                                            carnot_quantized_end* out_end, char* reason,
                                            size_t size) {
  *out_end = kNone;
  reader r = {problem, reason, size, 1, dtype, NULL, NULL, out_end};
  return read_region(&r, out);
}

const char* carnot_attention_read_mixed(const carnot_problem* problem, carnot_dtype dtype,
                                        carnot_attention_params* out,
                                        carnot_attention_mixes* out_mixes, char* reason,
                                        size_t size) {
  *out_mixes = (carnot_attention_mixes){{-1, -1}, {-1, -1}};
  reader r = {problem, reason, size, 1, dtype, NULL, out_mixes, NULL};
  const char* why = read_region(&r, out);
  if (why) return why;
  return out_mixes->weights[0] < 0 && out_mixes->weights[1] < 0 ? "heads are not mixed" : NULL;
}

const char* carnot_attention_read_bytes(const carnot_problem* problem, carnot_dtype dtype,
                                        carnot_attention_params* out,
                                        carnot_attention_conversions* conversions, char* reason,
                                        size_t size) {
  *conversions = (carnot_attention_conversions){.q = kNone,
                                                .k = kNone,
                                                .v = kNone,
                                                .scores = kNone,
                                                .scaled = kNone,
                                                .masked = kNone,
                                                .weights = kNone,
                                                .out = kNone,
                                                .factor = 1};
  reader r = {problem, reason, size, 1, dtype, conversions, NULL, &conversions->out};
  const char* why = read_region(&r, out);
  if (why) return why;
  return is_float(&conversions->weights) ? "softmax's result is not quantized" : NULL;
}

static carnot_status* check_view(const carnot_attention_view* view, uint32_t input_count,
                                 int least_rank) {
  CARNOT_CHECK(view->input >= 0 && (uint32_t)view->input < input_count &&
                   view->rank >= least_rank && view->rank <= CARNOT_MAX_RANK,
               INVALID_MODEL, "input %d of %u, rank %d", view->input, input_count, view->rank);
  uint32_t seen = 0;
  for (int d = 0; d < view->rank; d++) {
    CARNOT_CHECK(view->perm[d] >= 0 && view->perm[d] < view->rank && !(seen >> view->perm[d] & 1),
                 INVALID_MODEL, "axis %d is axis %d of %d", d, view->perm[d], view->rank);
    seen |= 1u << view->perm[d];
  }
  CARNOT_CHECK(view->cut == -1 || (view->cut >= 0 && view->cut < view->rank && view->first >= 0 &&
                                   view->count > 0 && view->cut != view->perm[view->rank - 1]),
               INVALID_MODEL, "%lld from %lld on of axis %d", (long long)view->count,
               (long long)view->first, view->cut);
  return NULL;
}

carnot_status* carnot_attention_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_attention_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_attention_params));
  return carnot_attention_check_views(step->params, step);
}

carnot_status* carnot_attention_check_views(const carnot_attention_params* p,
                                            const carnot_step_view* step) {
  CARNOT_CHECK(step->output_count == 1, INVALID_MODEL, "%u results, must be 1", step->output_count);
  CARNOT_TRY(check_view(&p->q, step->input_count, 2));
  CARNOT_TRY(check_view(&p->k, step->input_count, 2));
  CARNOT_TRY(check_view(&p->v, step->input_count, 2));
  CARNOT_TRY(check_view(&p->out, 1, 3));
  CARNOT_CHECK(p->mask >= -1 && p->mask < (int64_t)step->input_count, INVALID_MODEL,
               "mask %d of %u inputs", p->mask, step->input_count);
  return NULL;
}

carnot_status* carnot_heads_make(const carnot_attention_view* view, const carnot_operand* t,
                                 carnot_dtype dtype, carnot_heads* out) {
  CARNOT_CHECK(t->format.dtype == dtype && t->rank == view->rank, INVALID_ARGUMENT,
               "an operand of attention is %s of rank %d, must be %s of rank %d",
               carnot_dtype_name(t->format.dtype), t->rank, carnot_dtype_name(dtype), view->rank);
  int64_t dims[CARNOT_MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[d] = d == view->cut ? view->count : t->dims[d];
  int last = view->perm[view->rank - 1], row = view->perm[view->rank - 2];
  CARNOT_CHECK(dims[last] <= 1 || t->strides[last] == 1, INVALID_ARGUMENT,
               "the elements of a head are apart");
  CARNOT_CHECK(view->cut < 0 || view->first + view->count <= t->dims[view->cut], INVALID_ARGUMENT,
               "%lld from %lld on of %lld", (long long)view->count, (long long)view->first,
               (long long)t->dims[view->cut]);
  *out = (carnot_heads){.batch = 1,
                        .rows = dims[row],
                        .elements = dims[last],
                        .ld = t->strides[row],
                        .offset = view->cut < 0 ? 0 : view->first * t->strides[view->cut]};
  for (int d = 0; d + 2 < view->rank; d++) {
    if (carnot_attention_drops(view, d)) continue;
    const int to = out->batch_rank++;
    out->batch_dims[to] = dims[view->perm[d]];
    out->batch_strides[to] = t->strides[view->perm[d]];
    out->batch *= out->batch_dims[to];
  }
  return NULL;
}

carnot_status* carnot_heads_check(const carnot_heads* q, const carnot_heads* k,
                                  const carnot_heads* v, const carnot_heads* out) {
  CARNOT_CHECK(
      q->batch == out->batch && k->batch == out->batch && v->batch == out->batch &&
          q->rows == out->rows && k->rows == v->rows && q->elements == k->elements &&
          v->elements == out->elements,
      INVALID_ARGUMENT,
      "attention of %lld heads of [%lld,%lld] over %lld of [%lld,%lld] and %lld of [%lld,%lld]",
      (long long)q->batch, (long long)q->rows, (long long)q->elements, (long long)k->batch,
      (long long)k->rows, (long long)k->elements, (long long)v->batch, (long long)v->rows,
      (long long)v->elements);
  return NULL;
}

carnot_status* carnot_attention_mask(const carnot_operand* mask, const carnot_heads* out,
                                     int64_t keys, int64_t* strides, int64_t* out_ld) {
  int rank = out->batch_rank + 2;
  CARNOT_CHECK(mask->rank >= 1 && mask->rank <= rank && mask->dims[mask->rank - 1] == keys &&
                   (keys <= 1 || mask->strides[mask->rank - 1] == 1),
               INVALID_ARGUMENT, "the mask is not one number for each of %lld keys",
               (long long)keys);
  for (int d = 0; d < rank - 1; d++) {
    int at = d - (rank - mask->rank);
    int64_t dim = at < 0 ? 1 : mask->dims[at],
            full = d == rank - 2 ? out->rows : out->batch_dims[d];
    CARNOT_CHECK(dim == 1 || dim == full, INVALID_ARGUMENT,
                 "dimension %d of the mask is %lld, must be 1 or %lld", at, (long long)dim,
                 (long long)full);
    *(d == rank - 2 ? out_ld : &strides[d]) = dim == 1 ? 0 : mask->strides[at];
  }
  return NULL;
}
