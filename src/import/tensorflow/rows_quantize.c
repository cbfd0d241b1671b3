// Fake quantization of quantization-aware training as quantize and dequantize, so that the network
// runs in INT8. Source: tensorflow/core/kernels/fake_quant_ops_functor.h.
#include <math.h>

#include "import/tensorflow/rows.h"

// The range moved so that 0 is a step, as scale and zero point of [least, most].
static void nudge(double min, double max, int least, int most, float* scale, int* zero) {
  const float width = ((float)max - (float)min) / (float)(most - least);
  const float from_min = (float)least - (float)min / width;
  *scale = width;
  *zero = from_min < (float)least ? least : from_min > (float)most ? most : (int)roundf(from_min);
}

// |mins| and |maxs| [count]; axis -1: one for the whole tensor.
static carnot_value* fake_quantize(tf_import* n, const float* mins, const float* maxs, size_t count,
                                   int axis) {
  const int64_t bits = tf_int(n, "num_bits", 8);
  const int least = tf_bool(n, "narrow_range", false) ? 1 : 0;
  if (bits < 2 || bits > 8) {
    TF_FAIL(n, UNSUPPORTED, "num_bits is %lld; 2 to 8 are supported", (long long)bits);
    return NULL;
  }
  const int most = (1 << bits) - 1;
  float* scales = CARNOT_NEW_ARRAY(n->node.arena, float, count);
  uint8_t* zeros = CARNOT_NEW_ARRAY(n->node.arena, uint8_t, count);
  if (!import_has_memory(&n->node)) return NULL;
  for (size_t i = 0; i < count; i++) {
    int zero;
    if (!(mins[i] < maxs[i]) || !(mins[i] <= 0) || !(maxs[i] >= 0)) {
      TF_FAIL(n, UNSUPPORTED, "the range [%g, %g] does not hold 0", (double)mins[i],
              (double)maxs[i]);
      return NULL;
    }
    nudge((double)mins[i], (double)maxs[i], least, most, &scales[i], &zero);
    zeros[i] = (uint8_t)zero;
  }
  const int rank = axis < 0 ? 0 : 1;
  const carnot_tensor
      scale = {.dtype = CARNOT_DTYPE_F32, .rank = rank, .dims = {(int64_t)count}, .data = scales},
      zero = {.dtype = CARNOT_DTYPE_U8, .rank = rank, .dims = {(int64_t)count}, .data = zeros};
  carnot_value *s = import_tensor_constant(&n->node, &scale),
               *z = import_tensor_constant(&n->node, &zero);
  carnot_attrs attrs = {0};
  if (axis >= 0) carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis);
  carnot_value* q = import_op(&n->node, CARNOT_OP_QUANTIZE_LINEAR, &attrs, 3, n->inputs[0], s, z);
  // A narrower range than that of the type cuts off earlier.
  if (least != 0 || most != 255)
    q = import_ternary(&n->node, CARNOT_FN_CLIP, q,
                       import_number_of(&n->node, CARNOT_DTYPE_U8, least),
                       import_number_of(&n->node, CARNOT_DTYPE_U8, most));
  return import_op(&n->node, CARNOT_OP_DEQUANTIZE_LINEAR, &attrs, 3, q, s, z);
}

static const float* constant_floats(tf_import* n, int input, size_t* out_count) {
  const carnot_value* value = n->inputs[input];
  *out_count = 0;
  if (!value->constant || value->type.dtype != CARNOT_DTYPE_F32) {
    TF_FAIL(n, UNSUPPORTED, "the range must be constant");
    return NULL;
  }
  *out_count = (size_t)carnot_tensor_count(&value->constant->tensor);
  return value->constant->tensor.data;
}

static void handle_args(tf_import* n) {
  const float min = (float)tf_float(n, "min", -6), max = (float)tf_float(n, "max", 6);
  n->outputs[0] = fake_quantize(n, &min, &max, 1, -1);
}
static void handle_vars(tf_import* n) {
  size_t counts[2];
  const float *mins = constant_floats(n, 1, &counts[0]), *maxs = constant_floats(n, 2, &counts[1]);
  if (n->node.status) return;
  if (counts[0] != 1 || counts[1] != 1)
    TF_FAIL(n, INVALID_MODEL, "%zu least and %zu largest values; 1 of each required", counts[0],
            counts[1]);
  else
    n->outputs[0] = fake_quantize(n, mins, maxs, 1, -1);
}
// The dimension is known and not |size|.
static bool is_other_size(tf_import* n, int axis, size_t size) {
  const int64_t dim = import_dim(n->inputs[0], axis);
  return dim >= 0 && dim != (int64_t)size;
}

// Along the last axis.
static void handle_per_channel(tf_import* n) {
  size_t counts[2];
  const int rank = import_rank(&n->node, n->inputs[0]);
  const float *mins = constant_floats(n, 1, &counts[0]), *maxs = constant_floats(n, 2, &counts[1]);
  if (n->node.status) return;
  if (counts[0] != counts[1] || rank < 1 || is_other_size(n, rank - 1, counts[0]))
    TF_FAIL(n, INVALID_MODEL, "%zu least and %zu largest values; one for each channel required",
            counts[0], counts[1]);
  else
    n->outputs[0] = fake_quantize(n, mins, maxs, counts[0], rank - 1);
}

static const tf_row kRows[] = {
    {"FakeQuantWithMinMaxArgs", handle_args, 1, 1, 0, NULL, NULL},
    {"FakeQuantWithMinMaxVars", handle_vars, 3, 3, 0, NULL, NULL},
    {"FakeQuantWithMinMaxVarsPerChannel", handle_per_channel, 3, 3, 0, NULL, NULL},
};
const tf_row_table tf_rows_quantize = TF_ROW_TABLE(kRows);
