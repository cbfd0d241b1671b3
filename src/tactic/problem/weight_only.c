// Reads GEMMs of float activations by integer weights with scales.
#include "tactic/problem/weight_only.h"

#include <stdio.h>

static const carnot_plan_node* node_making(const carnot_region* region, uint32_t local) {
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].output_count && region->nodes[n].outputs[0] == local)
      return &region->nodes[n];
  return NULL;
}

// The dequantize node behind input 1 of |anchor|, whether a transpose lies between, and how many
// nodes do.
static const carnot_plan_node* dequantize_of(const carnot_region* region,
                                             const carnot_plan_node* anchor, bool* out_transposed,
                                             uint32_t* out_between) {
  *out_transposed = false, *out_between = 0;
  const carnot_plan_node* node =
      anchor->input_count > 1 ? node_making(region, anchor->inputs[1]) : NULL;
  if (node && node->op == CARNOT_OP_CAST) {
    ++*out_between;
    node = node_making(region, node->inputs[0]);
  }
  if (node && node->op == CARNOT_OP_TRANSPOSE) {
    *out_transposed = true, ++*out_between;
    node = node_making(region, node->inputs[0]);
  }
  return node && node->op == CARNOT_OP_DEQUANTIZE_LINEAR ? node : NULL;
}

const carnot_plan_node* carnot_weight_only_anchor(const carnot_region* region,
                                                  uint32_t* out_index) {
  bool transposed;
  uint32_t between;
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (!carnot_is_gemm(node->op)) continue;
    *out_index = n;
    const bool takes =
        dequantize_of(region, node, &transposed, &between) && !node_making(region, node->inputs[0]);
    return takes ? node : NULL;
  }
  return NULL;
}

static bool swaps_two_axes(const carnot_plan_node* node) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  return !perm || (count == 2 && perm[0] == 1 && perm[1] == 0);
}

// Nodes before the anchor: the dequantize node, and |between| of which one may be a transpose.
static const char* check_nodes(const carnot_region* region, uint32_t anchor, bool transposed,
                               uint32_t between) {
  if (anchor != between + 1) return "other nodes before the GEMM";
  if (transposed && !swaps_two_axes(&region->nodes[1])) return "the transpose moves no two axes";
  return NULL;
}

static const carnot_operand_desc* known_input(const carnot_problem* problem, uint32_t local) {
  return local < problem->input_count && carnot_is_known(&problem->inputs[local])
             ? &problem->inputs[local]
             : NULL;
}

static const char* read_operands(const carnot_problem* problem, const carnot_plan_node* dequantize,
                                 carnot_weight_only_problem* out) {
  out->weights = dequantize->inputs[0], out->scales = dequantize->inputs[1];
  out->zeros = dequantize->input_count > 2 ? dequantize->inputs[2] : CARNOT_PLAN_NONE;
  const carnot_operand_desc *w = known_input(problem, out->weights),
                            *s = known_input(problem, out->scales);
  if (!w || w->rank != 2) return "the weights are no constant matrix";
  if (!s || !(s->format.dtype == CARNOT_DTYPE_F32 || carnot_dtype_is_half(s->format.dtype)))
    return "the scales are no constant floats";
  if (out->zeros != CARNOT_PLAN_NONE) {
    const carnot_operand_desc* z = known_input(problem, out->zeros);
    if (!z || z->format.dtype != w->format.dtype ||
        carnot_tensor_count(z->tensor) != carnot_tensor_count(s->tensor))
      return "the zero points are no constants for each scale";
  }
  const carnot_dtype dtype = w->format.dtype;
  out->is_signed = dtype == CARNOT_DTYPE_I2 || dtype == CARNOT_DTYPE_I4 || dtype == CARNOT_DTYPE_I8;
  out->bits = carnot_dtype_bits(dtype);
  if (!carnot_dtype_is_integer(dtype) || out->bits > 8) return "the weights exceed 8 bits";
  return NULL;
}

// Which scale belongs to which weight.
static const char* read_scales(const carnot_problem* problem, const carnot_plan_node* dequantize,
                               carnot_weight_only_problem* out, char* reason, size_t size) {
  const carnot_op_row* row = carnot_op_get(dequantize->op);
  const carnot_operand_desc *w = &problem->inputs[out->weights], *s = &problem->inputs[out->scales];
  const int k_axis = out->gemm.trans_b ? 1 : 0;
  int64_t axis = carnot_attr_int(row, &dequantize->attrs, "axis");
  int64_t block = carnot_attr_int(row, &dequantize->attrs, "block_size");
  axis += axis < 0 ? 2 : 0;
  out->k = w->dims[k_axis], out->n = w->dims[1 - k_axis], out->block = out->k;
  out->scale_k = out->scale_n = 0;
  if (out->k < 1 || out->n < 1) return "the weights are empty";
  if (carnot_tensor_count(s->tensor) == 1 && s->rank < 2) return NULL;
  if (s->rank < 2) {
    if (axis == k_axis) return "the scales run along K";
    out->scale_n = 1;
    return carnot_tensor_count(s->tensor) == out->n ? NULL : "the scales are not one a column";
  }
  const int64_t blocks = s->dims[k_axis];
  if (axis != k_axis || s->rank != 2 || s->dims[1 - k_axis] != out->n || blocks < 1)
    return "the blocks do not run along K";
  out->block = block > 0 ? block : carnot_ceildiv(out->k, blocks);
  if (carnot_ceildiv(out->k, out->block) != blocks)
    return (snprintf(reason, size, "%lld blocks of %lld for K %lld", (long long)blocks,
                     (long long)out->block, (long long)out->k),
            reason);
  out->scale_k = k_axis == 1 ? 1 : out->n;
  out->scale_n = k_axis == 1 ? blocks : 1;
  return NULL;
}

const char* carnot_weight_only_read(const carnot_problem* problem, carnot_weight_only_problem* out,
                                    char* reason, size_t size) {
  const carnot_region* region = problem->region;
  *out = (carnot_weight_only_problem){.bits = 0};
  const carnot_plan_node* node = carnot_weight_only_anchor(region, &out->anchor);
  if (!node) return "";
  bool transposed;
  uint32_t between;
  const carnot_plan_node* dequantize = dequantize_of(region, node, &transposed, &between);
  const char* why = check_nodes(region, out->anchor, transposed, between);
  if (!why) why = read_operands(problem, dequantize, out);
  if (!why)
    why = carnot_gemm_read_at(region, out->anchor, out->weights, problem->input_count, &out->gemm);
  if (why) return why;
  if (transposed) out->gemm.trans_b = !out->gemm.trans_b;
  return read_scales(problem, dequantize, out, reason, size);
}

// Numbers |first| and following of packed |data|, the first of a byte in its lowest bits. |flip|
// makes signed ones unsigned.
static inline void read_packed(const uint8_t* data, int bits, size_t first, int64_t count,
                               uint8_t flip, uint8_t* out) {
  const size_t each = 8 / (size_t)bits;
  const unsigned mask = (1u << bits) - 1;
  int64_t i = 0;
  for (; i < count && (first + (size_t)i) % each; i++)
    out[i] =
        (uint8_t)((data[first / each] >> (first + (size_t)i) % each * (size_t)bits & mask) ^ flip);
  data += (first + (size_t)i) / each;
  for (; i + (int64_t)each <= count; i += (int64_t)each, data++)
    for (size_t j = 0; j < each; j++)
      out[i + (int64_t)j] = (uint8_t)((*data >> j * (size_t)bits & mask) ^ flip);
  for (size_t j = 0; i < count; i++, j++)
    out[i] = (uint8_t)((*data >> j * (size_t)bits & mask) ^ flip);
}

static void read_numbers(const uint8_t* data, int bits, size_t first, int64_t count, uint8_t flip,
                         uint8_t* out) {
  switch (bits) {
    case 2: read_packed(data, 2, first, count, flip, out); break;
    case 4: read_packed(data, 4, first, count, flip, out); break;
    default: read_packed(data, 8, first, count, flip, out); break;
  }
}

// Of weights [K,N], in squares.
static void read_transposed(const uint8_t* data, const carnot_weight_only_problem* view,
                            uint8_t flip, uint8_t* out) {
  enum { kSide = 64 };
  uint8_t square[kSide][kSide];
  for (int64_t k0 = 0; k0 < view->k; k0 += kSide)
    for (int64_t n0 = 0; n0 < view->n; n0 += kSide) {
      const int64_t rows = carnot_min_i64(kSide, view->k - k0),
                    columns = carnot_min_i64(kSide, view->n - n0);
      for (int64_t k = 0; k < rows; k++)
        read_numbers(data, view->bits, (size_t)((k0 + k) * view->n + n0), columns, flip, square[k]);
      for (int64_t n = 0; n < columns; n++)
        for (int64_t k = 0; k < rows; k++) out[(n0 + n) * view->k + k0 + k] = square[k][n];
    }
}

void carnot_weight_only_numbers(const carnot_problem* problem,
                                const carnot_weight_only_problem* view, uint8_t* out) {
  const uint8_t* data = problem->inputs[view->weights].tensor->data;
  const uint8_t flip = (uint8_t)(view->is_signed ? 1u << (view->bits - 1) : 0);
  if (view->gemm.trans_b)
    read_numbers(data, view->bits, 0, view->n * view->k, flip, out);
  else
    read_transposed(data, view, flip, out);
}

static size_t scale_index(const carnot_weight_only_problem* view, int64_t b, int64_t n) {
  return (size_t)(b * view->scale_k + n * view->scale_n);
}

float carnot_weight_only_scale(const carnot_problem* problem,
                               const carnot_weight_only_problem* view, int64_t b, int64_t n) {
  const carnot_operand_desc* s = &problem->inputs[view->scales];
  return (float)carnot_load_f64(s->format.dtype, s->tensor->data, scale_index(view, b, n));
}

int carnot_weight_only_zero(const carnot_problem* problem, const carnot_weight_only_problem* view,
                            int64_t b, int64_t n) {
  const int shift = view->is_signed ? 1 << (view->bits - 1) : 0;
  if (view->zeros == CARNOT_PLAN_NONE) return shift;
  const carnot_operand_desc* z = &problem->inputs[view->zeros];
  return (int)carnot_load_i64(z->format.dtype, z->tensor->data, scale_index(view, b, n)) + shift;
}
