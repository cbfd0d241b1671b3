// What the GEMMs and convolutions of 8-bit integers share: the problem, stored parameters,
// geometry.
#include "backend/cuda/gemm/gemm_int8_common.h"

#include <stdlib.h>

#include "backend/cuda/common/sliding_window.h"
#include "backend/cuda/gemm/gemm_shape.h"
#include "backend/cuda/gemm/weight_transpose.h"
#include "tactic/problem/conv.h"

enum { kMaxChannels = 1 << 16, kMaxTaps = 1 << 10 };

int64_t carnot_cuda_gemm_int8_taps(const carnot_cuda_gemm_int8* p) {
  return p->is_conv ? p->window.kernel[0] * (p->window.rank == 2 ? p->window.kernel[1] : 1) : 1;
}

// ---- build ----

static const char* read_conv(const carnot_problem* problem, const carnot_operand_desc* x,
                             const carnot_operand_desc* w, uint32_t anchor,
                             carnot_cuda_gemm_int8* out, carnot_quantized_shape* shape,
                             char* reason, size_t size) {
  if (x->rank != 3 && x->rank != 4)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 and 4", x->rank);
  carnot_conv_problem conv = {.node = &problem->region->nodes[anchor], .anchor = anchor};
  const char* why = carnot_conv_problem_sizes(x, w, &conv, reason, size);
  if (why) return why;
  if (conv.group != 1) return "groups";
  *out = (carnot_cuda_gemm_int8){
      .window = conv.window, .channels = conv.channels, .filters = conv.filters, .is_conv = true};
  if (conv.channels < 1 || conv.filters < 1 || conv.channels > kMaxChannels ||
      conv.filters > kMaxChannels || carnot_cuda_gemm_int8_taps(out) > kMaxTaps)
    return carnot_cuda_reject_reason(reason, size, "%lld channels to %lld, %lld taps",
                                     (long long)conv.channels, (long long)conv.filters,
                                     (long long)carnot_cuda_gemm_int8_taps(out));
  *shape =
      (carnot_quantized_shape){0, out->filters, out->channels * carnot_cuda_gemm_int8_taps(out)};
  return NULL;
}

static const char* read_gemm(const carnot_operand_desc* x, const carnot_operand_desc* w,
                             const carnot_plan_node* node, carnot_cuda_gemm_int8* out,
                             carnot_quantized_shape* shape, char* reason, size_t size) {
  carnot_cuda_gemm_weights weights;
  const char* why = carnot_cuda_gemm_weights_read(x, w, node, &weights, reason, size);
  if (why) return why;
  *out = (carnot_cuda_gemm_int8){.channels = weights.channels, .filters = weights.filters};
  *shape = (carnot_quantized_shape){weights.trans ? 0 : 1, out->filters, out->channels};
  return NULL;
}

const char* carnot_cuda_gemm_int8_read(const carnot_problem* problem, carnot_quantized_region* view,
                                       carnot_cuda_gemm_int8* out, carnot_quantized_shape* shape,
                                       char* reason, size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node || node->op == CARNOT_OP_CONV_TRANSPOSE) return "";
  const uint32_t inputs = problem->input_count;
  const carnot_quantized_operand x = carnot_quantized_operand_of(problem->region, anchor, 0,
                                                                 inputs),
                                 w = carnot_quantized_operand_of(problem->region, anchor, 1,
                                                                 inputs);
  if (x.value == CARNOT_PLAN_NONE || w.value == CARNOT_PLAN_NONE || w.scale == CARNOT_PLAN_NONE)
    return "the operands are not both quantized";
  const carnot_operand_desc *xt = &problem->inputs[x.value], *wt = &problem->inputs[w.value];
  if (!carnot_is_known(wt)) return "the weights are not constant";
  const bool conv = node->op == CARNOT_OP_CONV;
  const char* why = conv ? read_conv(problem, xt, wt, anchor, out, shape, reason, size)
                         : read_gemm(xt, wt, node, out, shape, reason, size);
  if (why) return why;
  const int channel_axis = conv ? problem->outputs[0].rank - 1 : 1;
  return carnot_cuda_int8_region_read(problem, channel_axis, shape, view, &out->region, reason,
                                      size);
}

int64_t carnot_cuda_gemm_int8_rows(const carnot_operand_desc* y, bool conv) {
  int64_t rows = 1;
  for (int d = 0; d < y->rank; d++)
    if (d != (conv ? 1 : y->rank - 1)) rows *= y->dims[d];
  return rows;
}

// |*weights|, [channels, filters], becomes [filters, channels].
static carnot_status* transpose(const carnot_cuda_gemm_int8* p, void** weights) {
  void* transposed;
  CARNOT_TRY(
      carnot_calloc((size_t)(p->filters * p->channels), 1, "transposed weights", &transposed));
  carnot_cuda_transpose_weights_8(*weights, p->channels, p->filters, p->channels, transposed);
  free(*weights);
  *weights = transposed;
  return NULL;
}

carnot_status* carnot_cuda_gemm_int8_prepare(const carnot_problem* problem, const char* packing,
                                             carnot_cuda_gemm_int8_bytes* bytes_of,
                                             carnot_cuda_gemm_int8_pack* pack,
                                             carnot_prepared* out) {
  void *params, *centered, *packed;
  char reason[256];
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_cuda_gemm_int8), "parameters", &params));
  carnot_cuda_gemm_int8* p = params;
  const char* why = carnot_cuda_gemm_int8_read(problem, &view, p, &shape, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const size_t bytes = bytes_of(p);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &packed));
  CARNOT_TRY(
      carnot_calloc((size_t)(p->filters * shape.depth), 1, "weights before packing", &centered));
  carnot_status* status =
      carnot_cuda_int8_region_prepare(problem, &view, &p->region, &shape, centered, out);
  memset(packed, 0, bytes);
  if (!status && shape.axis != 0) status = transpose(p, &centered);
  if (!status) pack(p, centered, packed);
  free(centered);
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].packing = packing;
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].data = packed;
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].bytes = bytes;
  out->params = params;
  out->param_bytes = sizeof(carnot_cuda_gemm_int8);
  return status;
}

void carnot_cuda_gemm_int8_pack_rows(const carnot_cuda_gemm_int8* p, int64_t padded, int64_t pitch,
                                     const int8_t* from, int8_t* to) {
  const int64_t taps = carnot_cuda_gemm_int8_taps(p);
  for (int64_t n = 0; n < p->filters; n++)
    for (int64_t c = 0; c < p->channels; c++)
      for (int64_t t = 0; t < taps; t++)
        to[n * pitch + t * padded + c] = from[(n * p->channels + c) * taps + t];
}

// ---- run ----

carnot_status* carnot_cuda_gemm_int8_validate(const carnot_step_view* step,
                                              carnot_cuda_gemm_int8_bytes* bytes_of) {
  const carnot_cuda_gemm_int8* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(*p), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(*p));
  CARNOT_CHECK(p->channels >= 1 && p->channels <= CARNOT_CUDA_GEMM_MAX_COLUMNS && p->filters >= 1 &&
                   p->filters <= CARNOT_CUDA_GEMM_MAX_COLUMNS && p->filters % 8 == 0,
               INVALID_MODEL, "%lld channels to %lld", (long long)p->channels,
               (long long)p->filters);
  if (p->is_conv) CARNOT_TRY(carnot_cuda_int8_window_check(&p->window));
  return carnot_cuda_int8_region_validate(&p->region, step, p->filters, bytes_of(p));
}

bool carnot_cuda_gemm_int8_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_cuda_gemm_int8* p = step->params;
  return (int64_t)input == p->region.x || (int64_t)input == p->region.residual;
}

static carnot_status* set_conv(const carnot_cuda_gemm_int8* p, const carnot_operand* x,
                               const carnot_operand* y, carnot_cuda_gemm_tile_params* t) {
  const int rank = p->window.rank;
  CARNOT_CHECK(x->rank == rank + 2 && y->rank == x->rank && x->dims[0] == y->dims[0] &&
                   x->dims[1] == p->channels && y->dims[1] == p->filters,
               INVALID_ARGUMENT, "%lld channels to %lld, the packed weights have %lld and %lld",
               (long long)x->dims[1], (long long)y->dims[1], (long long)p->channels,
               (long long)p->filters);
  carnot_sliding_window w = p->window;
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  for (int d = 2; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] <= INT32_MAX / 4 && y->dims[d] <= INT32_MAX / 4 &&
                     y->dims[d] * w.strides[d - 2] <= INT32_MAX / 4,
                 UNSUPPORTED, "dimension %d is %lld", d, (long long)x->dims[d]);
  const int64_t pixels = carnot_dims_count(y->dims, y->rank) / carnot_max_i64(1, p->filters);
  *t = (carnot_cuda_gemm_tile_params){.rows = pixels,
                                      .in_rows = rank == 2 ? (int)x->dims[2] : 1,
                                      .in_columns = (int)x->dims[rank + 1],
                                      .out_rows = rank == 2 ? (int)y->dims[2] : 1,
                                      .out_columns = (int)y->dims[rank + 1],
                                      .kernel_columns = (int)w.kernel[rank - 1],
                                      .step = {1, (int)w.strides[rank - 1]},
                                      .dilation = {1, (int)w.dilations[rank - 1]},
                                      .begin = {0, (int)w.begin[rank - 1]}};
  if (rank == 2)
    t->step[0] = (int)w.strides[0], t->dilation[0] = (int)w.dilations[0],
    t->begin[0] = (int)w.begin[0];
  return NULL;
}

static carnot_status* set_gemm(const carnot_cuda_gemm_int8* p, const carnot_operand* x,
                               const carnot_operand* y, carnot_cuda_gemm_tile_params* t) {
  CARNOT_CHECK(
      x->rank >= 1 && y->rank >= 1 && x->dims[x->rank - 1] == p->channels &&
          y->dims[y->rank - 1] == p->filters &&
          carnot_dims_count(x->dims, x->rank - 1) == carnot_dims_count(y->dims, y->rank - 1),
      INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]", (long long)p->channels,
      (long long)p->filters);
  *t = carnot_cuda_gemm_tile_rows(carnot_dims_count(x->dims, x->rank - 1), p->filters, p->channels);
  return NULL;
}

carnot_status* carnot_cuda_gemm_int8_geometry(const carnot_cuda_gemm_int8* p,
                                              const carnot_operand* inputs, const carnot_operand* y,
                                              int64_t channels, carnot_cuda_gemm_tile_params* out) {
  const carnot_operand* x = &inputs[p->region.x];
  CARNOT_TRY((p->is_conv ? set_conv : set_gemm)(p, x, y, out));
  CARNOT_CHECK(out->rows <= INT32_MAX, UNSUPPORTED, "%lld rows, takes up to 2^31",
               (long long)out->rows);
  CARNOT_TRY(carnot_cuda_int8_region_configure(&p->region, p->is_conv, p->is_conv, inputs, y));
  out->filters = (int)p->filters, out->depth = (int)(channels * carnot_cuda_gemm_int8_taps(p));
  out->channels = out->pixel = (int)channels;
  return NULL;
}
