#include "triton/convert.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"

// ---- errors ----

static TRITONSERVER_Error_Code to_code(carnot_code code) {
  switch (code) {
    case CARNOT_INVALID_ARGUMENT:
    case CARNOT_INVALID_MODEL:
    case CARNOT_OUT_OF_RANGE:
    case CARNOT_FAILED_PRECONDITION:
    case CARNOT_VERSION_MISMATCH: return TRITONSERVER_ERROR_INVALID_ARG;
    case CARNOT_NOT_FOUND: return TRITONSERVER_ERROR_NOT_FOUND;
    case CARNOT_UNSUPPORTED: return TRITONSERVER_ERROR_UNSUPPORTED;
    case CARNOT_OUT_OF_MEMORY: return TRITONSERVER_ERROR_UNAVAILABLE;
    case CARNOT_CANCELLED: return TRITONSERVER_ERROR_CANCELLED;
    default: return TRITONSERVER_ERROR_INTERNAL;
  }
}

static carnot_code from_code(TRITONSERVER_Error_Code code) {
  switch (code) {
    case TRITONSERVER_ERROR_NOT_FOUND: return CARNOT_NOT_FOUND;
    case TRITONSERVER_ERROR_INVALID_ARG:
    case TRITONSERVER_ERROR_ALREADY_EXISTS: return CARNOT_INVALID_ARGUMENT;
    case TRITONSERVER_ERROR_UNAVAILABLE: return CARNOT_OUT_OF_MEMORY;
    case TRITONSERVER_ERROR_UNSUPPORTED: return CARNOT_UNSUPPORTED;
    case TRITONSERVER_ERROR_CANCELLED: return CARNOT_CANCELLED;
    default: return CARNOT_INTERNAL;
  }
}

TRITONSERVER_Error* carnot_triton_to_error(carnot_status* status) {
  if (!status) return NULL;
  TRITONSERVER_Error* error =
      TRITONSERVER_ErrorNew(to_code(carnot_status_code(status)), carnot_status_message(status));
  carnot_status_free(status);
  return error;
}

carnot_status* carnot_triton_from_error(TRITONSERVER_Error* error) {
  if (!error) return NULL;
  carnot_status* status = carnot_status_make(from_code(TRITONSERVER_ErrorCode(error)), __FILE__,
                                             __LINE__, "%s", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return status;
}

// ---- types and shapes ----

static const TRITONSERVER_DataType kTypes[CARNOT_DTYPE_COUNT] = {
    [CARNOT_DTYPE_F32] = TRITONSERVER_TYPE_FP32,   [CARNOT_DTYPE_F64] = TRITONSERVER_TYPE_FP64,
    [CARNOT_DTYPE_F16] = TRITONSERVER_TYPE_FP16,   [CARNOT_DTYPE_BF16] = TRITONSERVER_TYPE_BF16,
    [CARNOT_DTYPE_I64] = TRITONSERVER_TYPE_INT64,  [CARNOT_DTYPE_I32] = TRITONSERVER_TYPE_INT32,
    [CARNOT_DTYPE_I16] = TRITONSERVER_TYPE_INT16,  [CARNOT_DTYPE_I8] = TRITONSERVER_TYPE_INT8,
    [CARNOT_DTYPE_U64] = TRITONSERVER_TYPE_UINT64, [CARNOT_DTYPE_U32] = TRITONSERVER_TYPE_UINT32,
    [CARNOT_DTYPE_U16] = TRITONSERVER_TYPE_UINT16, [CARNOT_DTYPE_U8] = TRITONSERVER_TYPE_UINT8,
    [CARNOT_DTYPE_BOOL] = TRITONSERVER_TYPE_BOOL,  [CARNOT_DTYPE_STRING] = TRITONSERVER_TYPE_BYTES,
};

TRITONSERVER_DataType carnot_triton_type(carnot_dtype dtype) {
  return dtype < CARNOT_DTYPE_COUNT ? kTypes[dtype] : TRITONSERVER_TYPE_INVALID;
}

const char* carnot_triton_type_name(TRITONSERVER_DataType type) {
  const char* name = TRITONSERVER_DataTypeString(type);
  return name && type != TRITONSERVER_TYPE_INVALID ? name : "INVALID";
}

void carnot_triton_dims_text(const carnot_dims* dims, char* text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "[");
  for (int d = 0; d < dims->rank && at < size; d++)
    at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? "," : "", dims->d[d]);
  if (at < size) snprintf(text + at, size - at, "]");
}
