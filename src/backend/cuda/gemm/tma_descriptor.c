// TMA tensor maps (sm_90): tiled for GEMM operands, im2col for convolution windows.
#include "backend/cuda/gemm/tma_descriptor.h"

#include "backend/cuda/common/sliding_window.h"

enum {
  kDepth = CARNOT_CUDA_TMA_DEPTH,
  kMostReach = CARNOT_CUDA_TMA_REACH,
  kMostStep = CARNOT_CUDA_TMA_STEP
};

const char* carnot_cuda_tma_reject(const carnot_problem* problem,
                                   const carnot_cuda_gemm_tile_region* region, char* reason,
                                   size_t size) {
  const carnot_cuda* cuda = carnot_cuda_of(problem->device);
  if (cuda->major != 9 || cuda->minor) return "needs sm_90";
  const carnot_operand_desc* w = &problem->inputs[region->weights];
  if (region->columns % 8)
    return carnot_cuda_reject_reason(reason, size, "%lld columns of results, takes eights",
                                     (long long)region->columns);
  if (problem->region->nodes[0].op != CARNOT_OP_CONV) return NULL;
  // A box is zero beyond the channels; of several taps it would hold weights of the next one.
  if (region->channels % kDepth && carnot_dims_count(w->dims + 2, w->rank - 2) > 1)
    return carnot_cuda_reject_reason(reason, size, "%lld channels in a window, takes 64s",
                                     (long long)region->channels);
  if (!carnot_cuda_sliding_window_within(&problem->region->nodes[0], w, kMostReach, kMostStep))
    return "the window is too large";
  return NULL;
}

carnot_status* carnot_cuda_tma_check(const carnot_cuda* cuda, const carnot_cuda_gemm_tile_step* t) {
  const carnot_cuda_gemm_tile_params* p = &t->params;
  int64_t reach = carnot_max_i64((int64_t)(t->taps / p->kernel_columns) * p->dilation[0],
                                 (int64_t)p->kernel_columns * p->dilation[1]);
  CARNOT_CHECK(cuda->major == 9 && (t->taps == 1 || p->channels % kDepth == 0) &&
                   (!p->group_filters || p->group_filters == p->filters) && p->filters % 8 == 0 &&
                   (t->taps == 1 || reach <= 2 * kMostReach),
               INVALID_ARGUMENT, "%d channels, %d filters, windows over %lld elements on %s",
               p->channels, p->filters, (long long)reach, cuda->base.arch);
  return NULL;
}

// Of the operands of a step: boxes of 128 bytes.
static carnot_cuda_tma_element element_of(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F8E4M3FN ? carnot_cuda_tma_byte(2 * kDepth)
                                        : carnot_cuda_tma_half(dtype);
}

// Boxes of |height| rows of [rows, columns], |pitch| elements apart.
static carnot_status* map_rows(carnot_cuda* cuda, carnot_cuda_tma_element of, const void* address,
                               int64_t rows, int columns, int64_t pitch, int height,
                               carnot_cuda_tma_descriptor* out) {
  const cuuint64_t dims[2] = {(cuuint64_t)columns, (cuuint64_t)rows},
                   strides[1] = {(cuuint64_t)pitch * of.bytes};
  const cuuint32_t box[2] = {of.depth, (cuuint32_t)height};
  return carnot_cuda_tma_map_tiled(cuda, of, address, 2, dims, strides, box, out);
}

static carnot_status* map_windows(carnot_cuda* cuda, carnot_cuda_tma_element of,
                                  const carnot_cuda_gemm_tile_params* p, int images, int height,
                                  carnot_cuda_tma_descriptor* out) {
  const cuuint64_t pixel = (cuuint64_t)p->pixel * of.bytes;
  const cuuint64_t dims[4] = {(cuuint64_t)p->channels, (cuuint64_t)p->in_columns,
                              (cuuint64_t)p->in_rows, (cuuint64_t)images};
  const cuuint64_t strides[3] = {pixel, pixel * dims[1], pixel * dims[1] * dims[2]};
  // The first window's corner, and the last one's against the image's.
  const int first[2] = {-p->begin[1], -p->begin[0]};
  const int last[2] = {(p->out_columns - 1) * p->step[1] + first[0] + 1 - p->in_columns,
                       (p->out_rows - 1) * p->step[0] + first[1] + 1 - p->in_rows};
  const cuuint32_t steps[4] = {1, (cuuint32_t)p->step[1], (cuuint32_t)p->step[0], 1};
  CARNOT_CUDA_TRY(cuda, cuTensorMapEncodeIm2col(
                            (CUtensorMap*)out, of.type, 4, (void*)(uintptr_t)p->x, dims, strides,
                            first, last, of.depth, (cuuint32_t)height, steps,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, carnot_cuda_tma_swizzle(of),
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return NULL;
}

static carnot_status* map_x(carnot_cuda* cuda, carnot_cuda_tma_element of,
                            const carnot_cuda_gemm_tile_params* p, int images, bool is_window,
                            int height, carnot_cuda_tma_descriptor* out) {
  return is_window ? map_windows(cuda, of, p, images, height, out)
                   : map_rows(cuda, of, p->x, p->rows, p->channels, p->pixel, height, out);
}

carnot_status* carnot_cuda_tma_describe_x(carnot_cuda* cuda, const carnot_cuda_gemm_tile_step* t,
                                          int height, carnot_cuda_tma_descriptor* out) {
  return map_x(cuda, element_of(t->operand), &t->params, t->images, t->is_window, height, out);
}

carnot_status* carnot_cuda_tma_describe_bytes(carnot_cuda* cuda,
                                              const carnot_cuda_gemm_tile_params* params,
                                              int images, bool is_window, int depth, int height,
                                              carnot_cuda_tma_descriptor* out) {
  return map_x(cuda, carnot_cuda_tma_byte(depth), params, images, is_window, height, out);
}

carnot_status* carnot_cuda_tma_describe_byte_filters(carnot_cuda* cuda, const void* weights,
                                                     int64_t filters, int taps, int channels,
                                                     int depth, int height,
                                                     carnot_cuda_tma_descriptor* out) {
  const cuuint64_t dims[3] = {(cuuint64_t)channels, (cuuint64_t)taps, (cuuint64_t)filters},
                   strides[2] = {dims[0], dims[0] * dims[1]};
  const cuuint32_t box[3] = {(cuuint32_t)depth, 1, (cuuint32_t)height};
  return carnot_cuda_tma_map_tiled(cuda, carnot_cuda_tma_byte(depth), weights, 3, dims, strides,
                                   box, out);
}

carnot_status* carnot_cuda_tma_describe_byte_rows(carnot_cuda* cuda, const void* address,
                                                  int64_t rows, int columns, int depth, int height,
                                                  carnot_cuda_tma_descriptor* out) {
  return map_rows(cuda, carnot_cuda_tma_byte(depth), address, rows, columns, columns, height, out);
}

carnot_status* carnot_cuda_tma_describe_residual(carnot_cuda* cuda,
                                                 const carnot_cuda_gemm_tile_step* t, int height,
                                                 carnot_cuda_tma_descriptor* out) {
  static const carnot_cuda_tma_element kBits16 = {CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, kDepth};
  const carnot_cuda_gemm_tile_params* p = &t->params;
  return map_rows(cuda, kBits16, p->residual, p->rows, p->filters, p->filters, height, out);
}

carnot_status* carnot_cuda_tma_describe_weights(carnot_cuda* cuda,
                                                const carnot_cuda_gemm_tile_step* t, int height,
                                                carnot_cuda_tma_descriptor* out) {
  const carnot_cuda_gemm_tile_params* p = &t->params;
  return map_rows(cuda, element_of(t->operand), p->w, p->filters, p->depth, p->depth, height, out);
}

// Filter 32 q + 8 t + 2 b + e at [q, b, t, e], and the box is walked in that order.
carnot_status* carnot_cuda_tma_describe_permuted_weights(carnot_cuda* cuda,
                                                         const carnot_cuda_gemm_tile_step* t,
                                                         int height,
                                                         carnot_cuda_tma_descriptor* out) {
  const carnot_cuda_gemm_tile_params* p = &t->params;
  const carnot_cuda_tma_element of = element_of(t->operand);
  const cuuint64_t row = (cuuint64_t)p->depth * of.bytes,
                   strides[4] = {row, 8 * row, 2 * row, 32 * row},
                   dims[5] = {(cuuint64_t)p->depth, 2, 4, 4, (cuuint64_t)p->filters / 32};
  const cuuint32_t box[5] = {of.depth, 2, 4, 4, (cuuint32_t)height / 32};
  return carnot_cuda_tma_map_tiled(cuda, of, p->w, 5, dims, strides, box, out);
}
