// GatherElements, ScatterElements, ScatterND and TensorScatter by generic kernels.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/gather/scatter_gather_params.h"

// ---- gather and scatter along an axis ----

static carnot_status* set_elements(const carnot_step_view* step, const carnot_operand* x,
                                   const carnot_operand* index,
                                   carnot_cuda_gather_elements_params* out) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_check_index(index));
  CARNOT_CHECK(x->rank == index->rank && x->rank > 0 && x->rank <= CARNOT_CUDA_RANK, INVALID_MODEL,
               "indices of rank %d, the input's is %d", index->rank, x->rank);
  out->rank = x->rank;
  out->io.bytes = carnot_cuda_bytes(x);
  CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &out->axis));
  out->size = x->dims[out->axis];
  int64_t stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    CARNOT_CHECK(d == out->axis || index->dims[d] <= x->dims[d], INVALID_ARGUMENT,
                 "dimension %d of the indices is %lld, the input has %lld", d,
                 (long long)index->dims[d], (long long)x->dims[d]);
    out->dims[d] = index->dims[d];
    out->stride[d] = stride;
    stride *= x->dims[d];
  }
  return NULL;
}

static carnot_status* gather_elements_shape(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_gather_elements_params p = {0};
  CARNOT_TRY(set_elements(step, &inputs[0], &inputs[1], &p));
  CARNOT_CHECK(carnot_cuda_count(&outputs[0]) == carnot_cuda_count(&inputs[1]) &&
                   outputs[0].format.dtype == inputs[0].format.dtype,
               INVALID_ARGUMENT, "the result of a gather has another size or type");
  return carnot_cuda_generic_shape(step, inputs, outputs,
                                   CARNOT_CUDA_KERNEL_generic_gather_elements,
                                   carnot_cuda_count(&outputs[0]), &p, sizeof(p), state);
}

static carnot_status* read_reduction(const carnot_step_view* step, int* out) {
  static const char* const kNames[] = {"none", "add", "mul", "max", "min"};
  const carnot_op_row* row = carnot_op_get(carnot_cuda_node_of(step)->op);
  for (*out = 0; *out < 5; ++*out)
    if (carnot_attr_is(row, &carnot_cuda_node_of(step)->attrs, "reduction", kNames[*out]))
      return NULL;
  return CARNOT_ERROR(INVALID_MODEL, "reduction must be none, add, mul, max or min");
}

static carnot_status* shape_copied(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, carnot_cuda_kernel_id kernel,
                                   int64_t count, const void* params, size_t bytes,
                                   carnot_cuda_generic_state* state) {
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, kernel, count, params, bytes, state));
  state->copied = (size_t)(carnot_cuda_count(&inputs[0]) * carnot_cuda_bytes(&inputs[0]));
  return NULL;
}

static carnot_status* scatter_elements_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_gather_elements_params p = {0};
  CARNOT_TRY(carnot_cuda_check_copied(&inputs[0], &inputs[2], &outputs[0]));
  CARNOT_TRY(set_elements(step, &inputs[0], &inputs[1], &p));
  CARNOT_TRY(read_reduction(step, &p.reduction));
  CARNOT_CHECK(carnot_cuda_count(&inputs[2]) == carnot_cuda_count(&inputs[1]), INVALID_ARGUMENT,
               "%lld updates for %lld indices", (long long)carnot_cuda_count(&inputs[2]),
               (long long)carnot_cuda_count(&inputs[1]));
  int64_t lanes = carnot_cuda_count(&inputs[1]) / carnot_max_i64(1, p.dims[p.axis]);
  return shape_copied(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_scatter_elements, lanes, &p,
                      sizeof(p), state);
}

// ---- scatter by several indices ----

static carnot_status* scatter_nd_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *index = &inputs[1];
  CARNOT_TRY(carnot_cuda_check_copied(x, &inputs[2], &outputs[0]));
  CARNOT_TRY(carnot_cuda_check_index(index));
  int64_t depth = index->rank > 0 ? index->dims[index->rank - 1] : -1;
  CARNOT_CHECK(depth >= 0 && depth <= x->rank && depth <= CARNOT_CUDA_RANK, INVALID_MODEL,
               "%lld indices for rank %d", (long long)depth, x->rank);
  carnot_cuda_scatter_nd_params p = {
      .depth = (int)depth,
      .rows = carnot_dims_count(index->dims, index->rank - 1),
      .inner = carnot_dims_count(x->dims + depth, x->rank - (int)depth)};
  p.io.bytes = carnot_cuda_bytes(x);
  for (int k = 0; k < (int)depth; k++) p.dims[k] = x->dims[k];
  CARNOT_TRY(read_reduction(step, &p.reduction));
  CARNOT_CHECK(carnot_cuda_count(&inputs[2]) == p.rows * p.inner, INVALID_ARGUMENT,
               "%lld updates where %lld belong", (long long)carnot_cuda_count(&inputs[2]),
               (long long)(p.rows * p.inner));
  int64_t count = p.reduction == CARNOT_CUDA_KEEP ? p.rows * p.inner : p.rows ? p.inner : 0;
  return shape_copied(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_scatter_nd, count, &p,
                      sizeof(p), state);
}

// The result has the cache's dimensions, or is longer on |axis|.
static carnot_status* check_caches(const carnot_operand* x, const carnot_operand* u,
                                   const carnot_operand* y, int axis) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(u, 1));
  CARNOT_CHECK(x->format.dtype == y->format.dtype && x->format.dtype == u->format.dtype,
               INVALID_ARGUMENT, "a cache of %s, updates of %s, a result of %s",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(u->format.dtype),
               carnot_dtype_name(y->format.dtype));
  CARNOT_CHECK(axis > 0 && u->rank == x->rank && y->rank == x->rank && x->dims[0] > 0,
               INVALID_MODEL, "axis %d of ranks %d, %d and %d", axis, x->rank, u->rank, y->rank);
  for (int d = 0; d < x->rank; d++)
    CARNOT_CHECK((u->dims[d] == y->dims[d] && x->dims[d] == y->dims[d]) ||
                     (d == axis && u->dims[d] <= y->dims[d] && x->dims[d] <= y->dims[d]),
                 INVALID_ARGUMENT, "dimension %d: cache %lld, update %lld, result %lld", d,
                 (long long)x->dims[d], (long long)u->dims[d], (long long)y->dims[d]);
  return NULL;
}

static carnot_status* tensor_scatter_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *u = &inputs[1], *y = &outputs[0],
                       *indices = carnot_cuda_optional(step, inputs, 2);
  if (indices->format.dtype) CARNOT_TRY(carnot_cuda_check_index(indices));
  int axis;
  CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
  CARNOT_TRY(check_caches(x, u, y, axis));
  CARNOT_CHECK(!indices->format.dtype || carnot_cuda_count(indices) == x->dims[0], INVALID_ARGUMENT,
               "%lld write indices for %lld samples", (long long)carnot_cuda_count(indices),
               (long long)x->dims[0]);
  carnot_cuda_tensor_scatter_params p = {
      .size = y->dims[axis],
      .before = x->dims[axis],
      .steps = u->dims[axis],
      .inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1),
      .per_sample = carnot_dims_count(x->dims + 1, axis - 1),
      .circular = carnot_attr_is(carnot_op_get(carnot_cuda_node_of(step)->op),
                                 &carnot_cuda_node_of(step)->attrs, "mode", "circular")};
  p.io.bytes = carnot_cuda_bytes(x);
  p.chunk = p.inner * p.io.bytes % 16 == 0 ? 16 / p.io.bytes : 1;
  p.inner /= p.chunk;
  if (p.before < p.size)
    return carnot_cuda_generic_shape(step, inputs, outputs,
                                     CARNOT_CUDA_KERNEL_generic_tensor_scatter_longer,
                                     carnot_cuda_count(y) / p.chunk, &p, sizeof(p), state);
  return shape_copied(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_tensor_scatter,
                      carnot_cuda_count(u) / p.chunk, &p, sizeof(p), state);
}

CARNOT_CUDA_GENERIC_OP_TACTIC(gather_elements, "cuda_gather_elements", GATHER_ELEMENTS);
CARNOT_CUDA_GENERIC_OP_TACTIC(scatter_elements, "cuda_scatter_elements", SCATTER_ELEMENTS);
CARNOT_CUDA_GENERIC_OP_TACTIC(scatter_nd, "cuda_scatter_nd", SCATTER_ND);
// A cache that keeps its size may be its own result.
static bool tensor_scatter_may_share(const carnot_step_view* step, uint32_t input,
                                     uint32_t output) {
  (void)step;
  return input == 0 && output == 0;
}
const carnot_tactic carnot_cuda_tensor_scatter = {
    CARNOT_CUDA_GENERIC_FIELDS("cuda_tensor_scatter", CARNOT_OP_TENSOR_SCATTER,
                               tensor_scatter_shape),
    .reject = carnot_cuda_generic_op_reject, .may_share = tensor_scatter_may_share,
    // Input 3 is the least length of the result.
    .config = &(const carnot_cuda_generic_config){.host_inputs = 1u << 3}};
