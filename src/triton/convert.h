// Errors and data types of Carnot as Triton's and back. Any thread.
#ifndef CARNOT_TRITON_CONVERT_H_
#define CARNOT_TRITON_CONVERT_H_

#include "carnot/types.h"
#include "triton/triton_api.h"

// |status| as an error of Triton, which the caller owns; takes |status|. NULL stays NULL.
TRITONSERVER_Error* carnot_triton_to_error(carnot_status* status) CARNOT_MUST_USE;
// The other way round: takes |error|.
carnot_status* carnot_triton_from_error(TRITONSERVER_Error* error) CARNOT_MUST_USE;

// Triton's name of |dtype|; INVALID where it has none (4-bit and 8-bit floating types, complex).
TRITONSERVER_DataType carnot_triton_type(carnot_dtype dtype);

// "FP32"; "INVALID" where Triton has no name.
const char* carnot_triton_type_name(TRITONSERVER_DataType type);

// "[1,3,-1]" into |text| [size].
void carnot_triton_dims_text(const carnot_dims* dims, char* text, size_t size);

#endif  // CARNOT_TRITON_CONVERT_H_
