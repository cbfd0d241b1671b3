// TensorProto, TypeProto and their data types brought to Carnot's.
#ifndef CARNOT_IMPORT_ONNX_TENSOR_PROTO_H_
#define CARNOT_IMPORT_ONNX_TENSOR_PROTO_H_

#include "import/common/files.h"
#include "import/onnx/onnx_proto.h"
#include "ir/tensor.h"

// The data type of a TensorProto.DataType; INVALID where there is none.
carnot_dtype carnot_onnx_dtype(int64_t data_type);
// The other way; 0 where ONNX has none.
int64_t carnot_onnx_data_type(carnot_dtype dtype);

// The tensor |proto| holds. Data stay in the mapped file where they are aligned to their element,
// else they are copied into |arena|. |files| may be NULL: external data are refused then.
// INVALID_MODEL when data and dimensions do not agree.
carnot_status* carnot_onnx_tensor_read(const onnx_tensor* proto, import_files* files,
                                       carnot_arena* arena,
                                       carnot_tensor* out_tensor) CARNOT_MUST_USE;
// The size in bytes of the elements.
carnot_status* carnot_onnx_tensor_size(const onnx_tensor* proto, size_t* out_bytes) CARNOT_MUST_USE;
// As carnot_onnx_tensor_read, with |data| instead of the elements in the message; they are borrowed
// where they are aligned, else copied into |arena|.
carnot_status* carnot_onnx_tensor_read_from(const onnx_tensor* proto, carnot_strview data,
                                            carnot_arena* arena,
                                            carnot_tensor* out_tensor) CARNOT_MUST_USE;
// The dense form of a sparse tensor, in |arena|.
carnot_status* carnot_onnx_sparse_read(const onnx_sparse_tensor* proto, import_files* files,
                                       carnot_arena* arena,
                                       carnot_tensor* out_tensor) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_ONNX_TENSOR_PROTO_H_
