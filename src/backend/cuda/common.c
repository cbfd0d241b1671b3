#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/rows.h"

const char* carnot_cuda_because(char* reason, size_t size, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reason, size, format, args);
  va_end(args);
  return reason;
}

const char* carnot_cuda_type(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_F32: return "f32";
    case CARNOT_DTYPE_F64: return "f64";
    case CARNOT_DTYPE_F16: return "f16";
    case CARNOT_DTYPE_BF16: return "bf16";
    case CARNOT_DTYPE_I64: return "i64";
    case CARNOT_DTYPE_I32: return "i32";
    case CARNOT_DTYPE_I16: return "i16";
    case CARNOT_DTYPE_I8: return "i8";
    case CARNOT_DTYPE_U64: return "u64";
    case CARNOT_DTYPE_U32: return "u32";
    case CARNOT_DTYPE_U16: return "u16";
    case CARNOT_DTYPE_U8: return "u8";
    case CARNOT_DTYPE_BOOL: return "b8";
    default: return NULL;
  }
}

const char* carnot_cuda_not_float(const carnot_operand_type* t, char* reason, size_t size) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (!carnot_cuda_is_float(t->dtype))
    return carnot_cuda_because(reason, size, "no kernel for %s", carnot_dtype_name(t->dtype));
  return NULL;
}

carnot_cuda_epilogue carnot_cuda_epilogue_of(const carnot_plan_node* node) {
  const carnot_op_row* row = carnot_op_get(node->op);
  if (carnot_cuda_is_fn(node, CARNOT_FN_RELU))
    return (carnot_cuda_epilogue){CARNOT_CUDA_CLAMP, 0, INFINITY};
  if (carnot_cuda_is_fn(node, CARNOT_FN_CLAMP))
    return (carnot_cuda_epilogue){CARNOT_CUDA_CLAMP,
                                  (float)carnot_attr_float(row, &node->attrs, "alpha"),
                                  (float)carnot_attr_float(row, &node->attrs, "beta")};
  if (carnot_cuda_is_fn(node, CARNOT_FN_SWISH) &&
      carnot_attr_float(row, &node->attrs, "alpha") == 1)
    return (carnot_cuda_epilogue){CARNOT_CUDA_SILU, 0, 0};
  if (carnot_cuda_is_fn(node, CARNOT_FN_HARD_SWISH))
    return (carnot_cuda_epilogue){CARNOT_CUDA_HARD_SWISH, 0, 0};
  return (carnot_cuda_epilogue){CARNOT_CUDA_NO_ACTIVATION, 0, 0};
}

carnot_status* carnot_cuda_ints(const carnot_operand* operand, int64_t* out, int capacity,
                                int* out_count) {
  *out_count = -1;
  if (operand->dtype == CARNOT_DTYPE_INVALID) return NULL;
  int64_t count = carnot_dims_count(operand->dims, operand->rank);
  CARNOT_CHECK(operand->place == CARNOT_PLACE_HOST && (operand->data || !count) &&
                   count <= capacity && carnot_dtype_is_integer(operand->dtype),
               INVALID_MODEL, "a list of %lld %s is not at hand when shapes are set",
               (long long)count, carnot_dtype_name(operand->dtype));
  for (int64_t i = 0; i < count; i++)
    out[i] = carnot_load_i64(operand->dtype, operand->data, (size_t)i);
  *out_count = (int)count;
  return NULL;
}

carnot_status* carnot_cuda_on_device(const carnot_operand* operands, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    CARNOT_CHECK(
        operands[i].dtype == CARNOT_DTYPE_INVALID || operands[i].place == CARNOT_PLACE_DEVICE,
        INVALID_MODEL, "operand %u of a device step is no value on the device", i);
  return NULL;
}

#define ROW(name) extern const carnot_tactic_row carnot_cuda_##name;
#include "backend/cuda/rows.def"
#undef ROW

static const carnot_tactic_row* const kRows[] = {
#define ROW(name) &carnot_cuda_##name,
#include "backend/cuda/rows.def"
#undef ROW
};

// CARNOT_CUDA_ROWS leaves what joins the two memories ("copies") and the rows that it names, comma
// by comma; everything else then runs on the processor, for tests of placement and for bisecting a
// wrong result.
const carnot_tactic_row* const* carnot_cuda_rows(size_t* out_count) {
  static const carnot_tactic_row* chosen[sizeof(kRows) / sizeof(kRows[0]) + 3];
  const char* wanted = getenv("CARNOT_CUDA_ROWS");
  *out_count = sizeof(kRows) / sizeof(kRows[0]);
  if (!wanted) return kRows;
  size_t count = 0;
  chosen[count++] = &carnot_cuda_upload;
  chosen[count++] = &carnot_cuda_download;
  chosen[count++] = &carnot_cuda_reformat;
  for (size_t i = 0; i < *out_count; i++) {
    const char* found = strstr(wanted, kRows[i]->name);
    size_t length = strlen(kRows[i]->name);
    if (found && (found == wanted || found[-1] == ',') &&
        (found[length] == 0 || found[length] == ','))
      chosen[count++] = kRows[i];
  }
  *out_count = count;
  return chosen;
}
