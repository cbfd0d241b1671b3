// Sizes of GEMMs with constant weights.
#include "backend/cuda/gemm/gemm_shape.h"

const char* carnot_cuda_gemm_weights_read(const carnot_operand_desc* x,
                                          const carnot_operand_desc* w,
                                          const carnot_plan_node* node,
                                          carnot_cuda_gemm_weights* out, char* reason,
                                          size_t size) {
  const carnot_op_row* row = carnot_op_get(node->op);
  if (x->rank < 1 || w->rank != 2) return "weights of other than two dimensions";
  if (carnot_attr_int(row, &node->attrs, "transA")) return "the first operand is transposed";
  const bool trans = carnot_attr_int(row, &node->attrs, "transB") != 0;
  *out = (carnot_cuda_gemm_weights){w->dims[trans], w->dims[!trans], trans};
  if (out->channels < 1 || out->filters < 1 || out->filters > CARNOT_CUDA_GEMM_MAX_COLUMNS ||
      out->channels > CARNOT_CUDA_GEMM_MAX_COLUMNS || x->dims[x->rank - 1] != out->channels)
    return carnot_cuda_reject_reason(reason, size, "rows of %lld meet weights of [%lld,%lld]",
                                     (long long)x->dims[x->rank - 1], (long long)w->dims[0],
                                     (long long)w->dims[1]);
  return NULL;
}

carnot_cuda_gemm_tile_params carnot_cuda_gemm_tile_rows(int64_t rows, int64_t filters,
                                                        int64_t depth) {
  return (carnot_cuda_gemm_tile_params){.rows = rows,
                                        .filters = (int)filters,
                                        .depth = (int)depth,
                                        .channels = (int)depth,
                                        .pixel = (int)depth,
                                        .pitch = (int)filters,
                                        .in_rows = 1,
                                        .in_columns = (int)rows,
                                        .out_rows = 1,
                                        .out_columns = (int)rows,
                                        .kernel_columns = 1,
                                        .step = {1, 1},
                                        .dilation = {1, 1}};
}
