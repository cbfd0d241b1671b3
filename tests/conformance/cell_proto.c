#include "cell_proto.h"

#include <math.h>

#include "import/onnx/onnx_proto.h"
#include "import/onnx/tensor_proto.h"

static carnot_status* read_tensor(const onnx_tensor* proto, carnot_arena* arena,
                                  carnot_rt_value* out) {
  *out = (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR};
  return carnot_onnx_tensor_read(proto, NULL, arena, &out->tensor);
}

static carnot_status* read_sequence(const onnx_sequence* proto, carnot_arena* arena,
                                    carnot_rt_value* out);

static carnot_status* read_optional(const onnx_optional* proto, carnot_arena* arena,
                                    carnot_rt_value* out) {
  *out = (carnot_rt_value){.kind = CARNOT_VALUE_OPTIONAL};
  carnot_rt_value* item = CARNOT_NEW(arena, carnot_rt_value);
  if (proto->tensor_value) {
    CARNOT_TRY(read_tensor(proto->tensor_value, arena, item));
  } else if (proto->sequence_value) {
    CARNOT_TRY(read_sequence(proto->sequence_value, arena, item));
  } else if (proto->optional_value) {
    CARNOT_TRY(read_optional(proto->optional_value, arena, item));
  } else {
    return NULL;
  }
  const carnot_rt_value** items = CARNOT_NEW_ARRAY(arena, const carnot_rt_value*, 1);
  items[0] = item;
  out->items = items;
  out->item_count = 1;
  return NULL;
}

static carnot_status* read_sequence(const onnx_sequence* proto, carnot_arena* arena,
                                    carnot_rt_value* out) {
  *out = (carnot_rt_value){.kind = CARNOT_VALUE_SEQUENCE};
  size_t count =
      proto->tensor_values.count + proto->sequence_values.count + proto->optional_values.count;
  const carnot_rt_value** items = CARNOT_NEW_ARRAY(arena, const carnot_rt_value*, count + 1);
  carnot_rt_value* cells = CARNOT_NEW_ARRAY(arena, carnot_rt_value, count + 1);
  for (size_t i = 0; i < count; i++) items[i] = &cells[i];
  size_t at = 0;
  for (size_t i = 0; i < proto->tensor_values.count; i++)
    CARNOT_TRY(read_tensor(&proto->tensor_values.items[i], arena, &cells[at++]));
  for (size_t i = 0; i < proto->sequence_values.count; i++)
    CARNOT_TRY(read_sequence(&proto->sequence_values.items[i], arena, &cells[at++]));
  for (size_t i = 0; i < proto->optional_values.count; i++)
    CARNOT_TRY(read_optional(&proto->optional_values.items[i], arena, &cells[at++]));
  out->items = items;
  out->item_count = count;
  return NULL;
}

carnot_status* carnot_cell_read(carnot_value_kind kind, const void* data, size_t size,
                                carnot_arena* arena, carnot_rt_value* out_cell) {
  if (kind == CARNOT_VALUE_SEQUENCE) {
    onnx_sequence* proto = CARNOT_NEW(arena, onnx_sequence);
    CARNOT_TRY(carnot_pb_read_wire(&carnot_onnx_sequence_message, data, size, arena, proto));
    return read_sequence(proto, arena, out_cell);
  }
  if (kind == CARNOT_VALUE_OPTIONAL) {
    onnx_optional* proto = CARNOT_NEW(arena, onnx_optional);
    CARNOT_TRY(carnot_pb_read_wire(&carnot_onnx_optional_message, data, size, arena, proto));
    return read_optional(proto, arena, out_cell);
  }
  onnx_tensor* proto = CARNOT_NEW(arena, onnx_tensor);
  CARNOT_TRY(carnot_pb_read_wire(&carnot_onnx_tensor_message, data, size, arena, proto));
  return read_tensor(proto, arena, out_cell);
}

// ---- comparison ----

static bool close_enough(double found, double wanted, double relative, double absolute) {
  if (isnan(wanted) || isnan(found)) return isnan(wanted) && isnan(found);
  if (isinf(wanted) || isinf(found)) return found == wanted;
  return fabs(found - wanted) <= absolute + relative * fabs(wanted);
}

static carnot_status* compare_tensors(const carnot_tensor* found, const carnot_tensor* wanted,
                                      double relative, double absolute) {
  char a[128], b[128];
  carnot_dims_print(found->dims, found->rank, a, sizeof(a));
  carnot_dims_print(wanted->dims, wanted->rank, b, sizeof(b));
  CARNOT_CHECK(found->dtype == wanted->dtype && strcmp(a, b) == 0, INTERNAL,
               "%s %s came out, wanted %s %s", carnot_dtype_name(found->dtype), a,
               carnot_dtype_name(wanted->dtype), b);
  carnot_dtype dtype = found->dtype;
  size_t count = (size_t)carnot_tensor_count(found);
  if (dtype == CARNOT_DTYPE_BF16)
    relative = fmax(relative, 0x1p-6);  // two units, as ONNX's own runner allows
  if (carnot_dtype_kind_of(dtype) == CARNOT_KIND_COMPLEX) {
    count *= 2;
    dtype = dtype == CARNOT_DTYPE_C64 ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_F64;
  }
  for (size_t i = 0; i < count; i++) {
    if (dtype == CARNOT_DTYPE_STRING) {
      carnot_strview x = ((carnot_strview*)found->data)[i], y = ((carnot_strview*)wanted->data)[i];
      CARNOT_CHECK(carnot_view_equal(x, y), INTERNAL,
                   "element %zu is '" CARNOT_VIEW_FMT "', wanted '" CARNOT_VIEW_FMT "'", i,
                   CARNOT_VIEW_ARG(x), CARNOT_VIEW_ARG(y));
    } else if (carnot_dtype_is_float(dtype)) {
      double x = carnot_load_f64(dtype, found->data, i),
             y = carnot_load_f64(dtype, wanted->data, i);
      CARNOT_CHECK(close_enough(x, y, relative, absolute), INTERNAL,
                   "element %zu is %.9g, wanted %.9g", i, x, y);
    } else {
      int64_t x = carnot_load_i64(dtype, found->data, i),
              y = carnot_load_i64(dtype, wanted->data, i);
      bool same = x == y || close_enough((double)x, (double)y, relative, absolute);
      CARNOT_CHECK(same, INTERNAL, "element %zu is %lld, wanted %lld", i, (long long)x,
                   (long long)y);
    }
  }
  return NULL;
}

carnot_status* carnot_cell_compare(const carnot_rt_value* found, const carnot_rt_value* wanted,
                                   double relative, double absolute) {
  CARNOT_CHECK(found->kind == wanted->kind, INTERNAL, "a value of kind %d came out, wanted kind %d",
               (int)found->kind, (int)wanted->kind);
  if (found->kind == CARNOT_VALUE_TENSOR)
    return compare_tensors(&found->tensor, &wanted->tensor, relative, absolute);
  CARNOT_CHECK(found->item_count == wanted->item_count, INTERNAL, "%zu items came out, wanted %zu",
               found->item_count, wanted->item_count);
  for (size_t i = 0; i < found->item_count; i++)
    CARNOT_TRY_AT(carnot_cell_compare(found->items[i], wanted->items[i], relative, absolute),
                  "item %zu", i);
  return NULL;
}
