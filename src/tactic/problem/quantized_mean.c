// Reads the mean over spatial axes behind a dequantize node.
#include "tactic/problem/quantized_mean.h"

static uint32_t input_of(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count ? node->inputs[i] : CARNOT_PLAN_NONE;
}

// The reduced axes are all from the third on.
static bool reduces_space(const carnot_problem* problem, const carnot_plan_node* node, int rank) {
  const uint32_t axes = input_of(node, 1);
  uint32_t set = 0;
  if (axes >= problem->input_count || !carnot_is_known(&problem->inputs[axes])) return false;
  const carnot_tensor* list = problem->inputs[axes].tensor;
  for (int64_t i = 0; i < carnot_tensor_count(list); i++) {
    int64_t axis = carnot_load_i64(list->dtype, list->data, (size_t)i);
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank) return false;
    set |= 1u << axis;
  }
  return rank >= 3 && set == ((1u << rank) - 1 - 3);
}

static const char* read_scale(const carnot_problem* problem, const carnot_plan_node* node,
                              carnot_dtype stored, float* scale, int32_t* zero) {
  const uint32_t s = input_of(node, 1), z = input_of(node, 2);
  if (s >= problem->input_count || !carnot_is_f32_constant(&problem->inputs[s]) ||
      carnot_tensor_count(problem->inputs[s].tensor) != 1)
    return "a scale is not one known float32 number";
  *scale = *(const float*)problem->inputs[s].tensor->data;
  *zero = 0;
  if (z == CARNOT_PLAN_NONE) return NULL;
  if (z >= problem->input_count || !carnot_is_known(&problem->inputs[z]) ||
      problem->inputs[z].format.dtype != stored ||
      carnot_tensor_count(problem->inputs[z].tensor) != 1)
    return "a zero point is not one known number of the stored type";
  *zero = (int32_t)carnot_load_i64(stored, problem->inputs[z].tensor->data, 0);
  return NULL;
}

const char* carnot_quantized_mean_read(const carnot_problem* problem, carnot_quantized_mean* out) {
  const carnot_region* r = problem->region;
  const bool quantizes = r->node_count == 3;
  if (r->node_count < 2 || r->node_count > 3 || r->nodes[0].op != CARNOT_OP_DEQUANTIZE_LINEAR ||
      r->nodes[1].op != CARNOT_OP_REDUCE || r->nodes[1].inputs[0] != r->nodes[0].outputs[0] ||
      problem->output_count != 1)
    return "";
  if (quantizes && (r->nodes[2].op != CARNOT_OP_QUANTIZE_LINEAR ||
                    r->nodes[2].inputs[0] != r->nodes[1].outputs[0]))
    return "";
  if (r->outputs[0] != r->nodes[r->node_count - 1].outputs[0])
    return "an inner value is read outside the region";
  if (!carnot_attr_is(carnot_op_get(CARNOT_OP_REDUCE), &r->nodes[1].attrs, "fn", "mean"))
    return "the reduction is no mean";
  if (r->nodes[0].inputs[0] >= problem->input_count) return "the bytes are no input of the step";
  const carnot_operand_desc* x = &problem->inputs[r->nodes[0].inputs[0]];
  const carnot_dtype y = problem->outputs[0].format.dtype;
  if (!carnot_is_8bit(x->format.dtype) || (quantizes && !carnot_is_8bit(y)))
    return "the operands are not int8 or uint8";
  if (!quantizes && y != CARNOT_DTYPE_F32) return "the result is not float32";
  if (!reduces_space(problem, &r->nodes[1], x->rank))
    return "the reduced axes are not those behind batch and channels";
  *out = (carnot_quantized_mean){.x = (int32_t)r->nodes[0].inputs[0],
                                 .x_signed = x->format.dtype == CARNOT_DTYPE_I8,
                                 .y_signed = y == CARNOT_DTYPE_I8,
                                 .y_float = !quantizes,
                                 .y_scale = 1};
  const char* why = read_scale(problem, &r->nodes[0], x->format.dtype, &out->x_scale, &out->x_zero);
  if (why || !quantizes) return why;
  return read_scale(problem, &r->nodes[2], y, &out->y_scale, &out->y_zero);
}

carnot_status* carnot_quantized_mean_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_quantized_mean), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_quantized_mean));
  const carnot_quantized_mean* p = step->params;
  CARNOT_CHECK(p->x >= 0 && p->x < (int64_t)step->input_count && step->output_count == 1 &&
                   p->x_zero >= -128 && p->x_zero <= 255 && p->y_zero >= -128 && p->y_zero <= 255,
               INVALID_MODEL, "input %d of %u, zero points %d and %d", p->x, step->input_count,
               p->x_zero, p->y_zero);
  return NULL;
}

carnot_status* carnot_quantized_mean_check(const carnot_quantized_mean* p, const carnot_operand* x,
                                           const carnot_operand* y, carnot_layout layout) {
  const carnot_dtype result = p->y_float    ? CARNOT_DTYPE_F32
                              : p->y_signed ? CARNOT_DTYPE_I8
                                            : CARNOT_DTYPE_U8;
  CARNOT_CHECK(x->format.dtype == (p->x_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8) &&
                   y->format.dtype == result && x->rank >= 3,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(layout, x->rank, x->dims, strides);
  for (int d = 0; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] == 1 || x->strides[d] == strides[d], INVALID_MODEL,
                 "the input is not dense in its layout");
  const int64_t n = carnot_dims_count(x->dims + 2, x->rank - 2), c = x->dims[1];
  CARNOT_CHECK(n >= 1 && n <= CARNOT_QUANTIZED_MEAN_ELEMENTS, INVALID_ARGUMENT,
               "a mean of %lld elements, takes up to %d", (long long)n,
               CARNOT_QUANTIZED_MEAN_ELEMENTS);
  CARNOT_CHECK(carnot_dims_count(y->dims, y->rank) == x->dims[0] * c && y->rank >= 2 &&
                   (c == 1 || y->strides[1] == 1) && (x->dims[0] == 1 || y->strides[0] == c),
               INVALID_ARGUMENT, "the result has another size or layout");
  return NULL;
}
