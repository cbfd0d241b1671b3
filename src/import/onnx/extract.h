// Parts of ONNX models as models of their own.
#ifndef CARNOT_IMPORT_ONNX_EXTRACT_H_
#define CARNOT_IMPORT_ONNX_EXTRACT_H_

#include "ir/graph.h"

// Writes to |path| the nodes of the model at |model_path| that |outputs| need when |inputs| are
// given; what else they need of the model's inputs stays an input. Names are of tensors of the main
// graph; types come from |graph|, the same model imported. NOT_FOUND names a tensor that is not
// there. External data stay where they are: |path| must lie in the model's folder then.
carnot_status* carnot_onnx_extract(const char* model_path, const carnot_graph* graph,
                                   const char* const* inputs, size_t input_count,
                                   const char* const* outputs, size_t output_count,
                                   const char* path) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_ONNX_EXTRACT_H_
