// Operators whose output size follows from values: NonZero-13, Compress-11 and
// NonMaxSuppression-11. count finds and counts what is selected, run writes it.
#include <string.h>

#include "backend/cuda/common/generic.h"
#include "kernel/cuda/data_dependent/data_dependent_params.h"

typedef struct chosen {
  carnot_cuda_generic_state
      each;            // the kernel that finds lists, over a carnot_cuda_data_dependent_params
  CUfunction starts;   // adds their counts up
  CUfunction write;    // writes them
  CUfunction corners;  // of boxes
} chosen;
_Static_assert(sizeof(chosen) <= CARNOT_STATE_BYTES, "the state has its size");

static carnot_cuda_data_dependent_params* params_of(chosen* s) {
  return (carnot_cuda_data_dependent_params*)s->each.params;
}

// The kernels that find and write lists, and the workspace besides their counts.
static carnot_status* shape_lists(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, carnot_cuda_kernel_id find,
                                  carnot_cuda_kernel_id write,
                                  const carnot_cuda_data_dependent_params* p, int64_t bytes,
                                  chosen* s, size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2 < step->input_count ? 2 : step->input_count));
  CARNOT_TRY(
      carnot_cuda_generic_shape(step, inputs, outputs, find, /*count=*/0, p, sizeof(*p), &s->each));
  CARNOT_TRY(carnot_cuda_kernel(cuda, CARNOT_CUDA_KERNEL_generic_scan_counts, &s->starts));
  CARNOT_TRY(carnot_cuda_kernel(cuda, write, &s->write));
  *out_workspace_bytes = p->lists ? (size_t)(p->lists + 1) * sizeof(int64_t) + (size_t)bytes : 0;
  return NULL;
}

// |params| go by value: |blocks| is the number of items that the kernel sees.
static carnot_status* launch(const carnot_step_view* step, CUfunction function, int64_t blocks,
                             carnot_cuda_data_dependent_params params) {
  const int64_t grid[3] = {blocks, 1, 1};
  params.io.count = blocks;
  return carnot_cuda_launch(step, function, grid, CARNOT_CUDA_THREADS, &params);
}

// Has lists found and waits for the number of all that they hold, |most| at most.
static carnot_status* find_lists(const carnot_step_view* step, chosen* s, int64_t most) {
  carnot_cuda_data_dependent_params* p = params_of(s);
  const carnot_backend* backend = step->stream->device->backend;
  int64_t found = 0;
  p->found = 0;
  if (!p->lists) return NULL;
  CARNOT_TRY(launch(step, s->each.function, p->lists, *p));
  CARNOT_TRY(launch(step, s->starts, /*blocks=*/1, *p));
  CARNOT_TRY(backend->copy(step->stream, &found, (int64_t*)p->io.scratch + p->lists, sizeof(found),
                           CARNOT_COPY_DOWNLOAD));
  CARNOT_TRY(backend->synchronize(step->stream));
  CARNOT_CHECK(found >= 0 && found <= most, INTERNAL, "%lld of %lld elements are chosen",
               (long long)found, (long long)most);
  p->found = found;
  return NULL;
}

static carnot_status* check_result(const carnot_operand* y, int64_t wanted) {
  CARNOT_CHECK(carnot_cuda_count(y) == wanted, INVALID_ARGUMENT,
               "the result has %lld elements; %lld are required", (long long)carnot_cuda_count(y),
               (long long)wanted);
  return NULL;
}

// Writes the lists that count found, |each| values per selected item.
static carnot_status* write_lists(const carnot_step_view* step, chosen* s,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, int64_t each) {
  carnot_cuda_data_dependent_params* p = params_of(s);
  carnot_cuda_generic_bind(step, inputs, outputs, workspace, &p->io);
  CARNOT_TRY(check_result(&outputs[0], each * p->found));
  return carnot_cuda_count(&outputs[0]) ? launch(step, s->write, p->lists, *p) : NULL;
}

// ---- elements in chunks ----

static bool has_whole_bytes(const carnot_operand* t) {
  int bits = t->format.dtype ? carnot_dtype_bits(t->format.dtype) : 0;
  return bits >= 8 && bits <= 64;
}

// Elements of input |input| are selected where they are not zero.
static void test_elements(const carnot_operand* inputs, int input, int64_t size,
                          carnot_cuda_data_dependent_params* p) {
  const carnot_operand* t = &inputs[input];
  p->tested = input;
  p->tested_bytes = carnot_cuda_bytes(t);
  p->mask = UINT64_MAX >> (64 - carnot_dtype_bits(t->format.dtype));
  if (carnot_dtype_is_float(t->format.dtype)) p->mask >>= 1;  // without the sign bit: -0 is zero
  p->size = size;
  p->lists = carnot_ceildiv(size, CARNOT_CUDA_CHUNK);
}

static carnot_status* elements_count(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace) {
  chosen* s = state;
  carnot_cuda_generic_bind(step, inputs, outputs, workspace, &params_of(s)->io);
  return find_lists(step, s, params_of(s)->size);
}

// ---- NonZero: x → coordinates [rank, chosen] of the elements that are not zero ----

static carnot_status* non_zero_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  const carnot_operand* x = &inputs[0];
  carnot_cuda_data_dependent_params p = {.rank = x->rank};
  CARNOT_CHECK(step->input_count == 1 && has_whole_bytes(x) && x->rank <= CARNOT_CUDA_RANK &&
                   outputs[0].format.dtype == CARNOT_DTYPE_I64,
               INVALID_MODEL, "%u operands, x of %s and rank %d", step->input_count,
               carnot_dtype_name(x->format.dtype), x->rank);
  for (int d = 0; d < x->rank; d++) p.dims[d] = x->dims[d];
  test_elements(inputs, 0, carnot_cuda_count(x), &p);
  return shape_lists(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_mark_selected,
                     CARNOT_CUDA_KERNEL_generic_non_zero, &p, p.lists * CARNOT_CUDA_CHUNK_BYTES,
                     state, out_workspace_bytes);
}

static carnot_status* non_zero_count(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, carnot_operand* outputs,
                                     void* workspace) {
  CARNOT_TRY(elements_count(step, state, inputs, outputs, workspace));
  outputs[0].rank = 2;
  outputs[0].dims[0] = params_of(state)->rank;
  outputs[0].dims[1] = params_of(state)->found;
  return NULL;
}

static carnot_status* non_zero_run(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)executor;
  return write_lists(step, state, inputs, outputs, workspace, params_of(state)->rank);
}

// ---- Compress: x, condition → elements of x, or slices along an axis, where it holds ----

static bool is_flat(const carnot_step_view* step) {
  return !carnot_attr_has(&step->region->nodes[0].attrs, "axis");
}

static const char* compress_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cuda_generic_reject(problem, CARNOT_OP_COMPRESS, 0, reason, size);
  if (why) return why;
  return problem->inputs[1].format.dtype == CARNOT_DTYPE_BOOL ? NULL : "the condition is not bool";
}

static carnot_status* compress_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  const carnot_operand *x = &inputs[0], *condition = &inputs[1];
  CARNOT_CHECK(step->input_count == 2 && has_whole_bytes(x) &&
                   condition->format.dtype == CARNOT_DTYPE_BOOL &&
                   outputs[0].format.dtype == x->format.dtype,
               INVALID_MODEL, "%u operands, a condition of %s", step->input_count,
               carnot_dtype_name(condition->format.dtype));
  carnot_cuda_data_dependent_params p = {.outer = 1, .axis = carnot_cuda_count(x), .inner = 1};
  p.io.bytes = carnot_cuda_bytes(x);
  if (!is_flat(step)) {
    int axis;
    CARNOT_CHECK(x->rank > 0, INVALID_MODEL, "an axis of a scalar");
    CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
    p.outer = carnot_dims_count(x->dims, axis);
    p.axis = x->dims[axis];
    p.inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  }
  test_elements(inputs, 1, carnot_min_i64(carnot_cuda_count(condition), p.axis), &p);
  return shape_lists(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_mark_selected,
                     CARNOT_CUDA_KERNEL_generic_compress, &p, p.lists * CARNOT_CUDA_CHUNK_BYTES,
                     state, out_workspace_bytes);
}

static carnot_status* compress_count(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, carnot_operand* outputs,
                                     void* workspace) {
  const carnot_operand* x = &inputs[0];
  int axis = 0;
  CARNOT_TRY(elements_count(step, state, inputs, outputs, workspace));
  outputs[0].rank = is_flat(step) ? 1 : x->rank;
  if (!is_flat(step)) {
    CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
    memcpy(outputs[0].dims, x->dims, sizeof(x->dims));
  }
  outputs[0].dims[axis] = params_of(state)->found;
  return NULL;
}

// The widest element that addresses and row sizes allow.
static void widen(carnot_cuda_data_dependent_params* p) {
  uintptr_t both = (uintptr_t)p->io.in[0] | (uintptr_t)p->io.out[0];
  while (p->io.bytes < 8 && p->inner % 2 == 0 && both % (2 * (uintptr_t)p->io.bytes) == 0)
    p->io.bytes *= 2, p->inner /= 2;
}

static carnot_status* compress_run(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)executor;
  enum { kCopies = 1 << 14 };  // of a block
  chosen* s = state;
  carnot_cuda_data_dependent_params p = *params_of(s);
  carnot_cuda_generic_bind(step, inputs, outputs, workspace, &p.io);
  CARNOT_TRY(check_result(&outputs[0], p.outer * p.found * p.inner));
  if (!carnot_cuda_count(&outputs[0])) return NULL;
  widen(&p);
  int64_t parts = carnot_ceildiv(p.outer * p.found * p.inner, p.lists * kCopies);
  p.parts = carnot_max_i64(1, carnot_min_i64(parts, INT32_MAX / p.lists));
  return launch(step, s->write, p.lists * p.parts, p);
}

// ---- NonMaxSuppression: boxes [batches, n, 4], scores [batches, classes, n] → [chosen, 3] ----

static const char* nms_reject(carnot_problem* problem, char* reason, size_t size) {
  uint32_t host = 0;
  if (!carnot_cuda_is_single(problem, CARNOT_OP_NON_MAX_SUPPRESSION)) return "";
  for (uint32_t i = 2; i < problem->input_count; i++)
    if (problem->inputs[i].is_constant) host |= 1u << i;
  const char* why =
      carnot_cuda_generic_reject(problem, CARNOT_OP_NON_MAX_SUPPRESSION, host, reason, size);
  return why ? why : carnot_cuda_not_real(&problem->inputs[1], reason, size);
}

// A constant limit; one that the device knows is read by the kernel.
static carnot_status* read_limit(const carnot_step_view* step, const carnot_operand* inputs,
                                 uint32_t i, double* out) {
  const carnot_operand* t = carnot_cuda_optional(step, inputs, i);
  if (!carnot_cuda_count(t) || t->format.memory == CARNOT_MEMORY_DEVICE) return NULL;
  return carnot_cuda_host_number(t, 0, out);
}

static carnot_status* nms_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  const carnot_operand *boxes = &inputs[0], *scores = &inputs[1];
  const carnot_operand* limit = carnot_cuda_optional(step, inputs, 2);
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_CHECK(step->input_count >= 2 && step->input_count <= 5 && boxes->rank == 3 &&
                   scores->rank == 3 && boxes->dims[2] == 4 && boxes->dims[0] == scores->dims[0] &&
                   boxes->dims[1] == scores->dims[2],
               INVALID_ARGUMENT, "boxes and scores do not have shapes [b, n, 4] and [b, c, n]");
  CARNOT_CHECK(
      carnot_cuda_is_real(scores->format.dtype) && outputs[0].format.dtype == CARNOT_DTYPE_I64,
      INVALID_MODEL, "scores of %s", carnot_dtype_name(scores->format.dtype));
  CARNOT_CHECK(boxes->dims[1] <= UINT32_MAX, UNSUPPORTED, "%lld boxes", (long long)boxes->dims[1]);
  carnot_cuda_data_dependent_params p = {
      .boxes = boxes->dims[1],
      .classes = scores->dims[1],
      .room = carnot_ceildiv(boxes->dims[1], CARNOT_CUDA_THREADS) * CARNOT_CUDA_THREADS,
      .centre = carnot_cuda_attr(&a, "center_point_box") != 0,
      .score = -1e300};
  bool reads = carnot_cuda_count(limit) && limit->format.memory == CARNOT_MEMORY_DEVICE;
  double most = reads ? (double)p.boxes : 0;
  CARNOT_TRY(read_limit(step, inputs, 2, &most));
  CARNOT_TRY(read_limit(step, inputs, 3, &p.overlap));
  CARNOT_TRY(read_limit(step, inputs, 4, &p.score));
  p.most = most > 0 ? (most < (double)p.boxes ? (int64_t)most : p.boxes) : 0;
  if (p.most && carnot_cuda_count(scores)) p.lists = scores->dims[0] * p.classes;
  int64_t bytes = carnot_cuda_count(boxes) * (int64_t)sizeof(double) +
                  p.lists * (p.room + p.most) * (int64_t)sizeof(uint32_t);
  CARNOT_TRY(carnot_cuda_kernel(carnot_cuda_of_step(step), CARNOT_CUDA_KERNEL_generic_nms_corners,
                                &((chosen*)state)->corners));
  return shape_lists(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_nms,
                     CARNOT_CUDA_KERNEL_generic_nms_write, &p, bytes, state, out_workspace_bytes);
}

static carnot_status* nms_count(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, carnot_operand* outputs,
                                void* workspace) {
  chosen* s = state;
  carnot_cuda_data_dependent_params* p = params_of(s);
  carnot_cuda_generic_bind(step, inputs, outputs, workspace, &p->io);
  for (uint32_t i = 2; i < 5; i++)
    if (!carnot_cuda_count(carnot_cuda_optional(step, inputs, i))) p->io.in[i] = NULL;
  if (p->lists) {
    p->io.count = carnot_cuda_count(&inputs[0]) / 4;
    CARNOT_TRY(carnot_cuda_launch_threads(step, s->corners, p->io.count, p));
  }
  CARNOT_TRY(find_lists(step, s, p->lists * p->most));
  outputs[0].rank = 2;
  outputs[0].dims[0] = p->found;
  outputs[0].dims[1] = 3;
  return NULL;
}

static carnot_status* nms_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)executor;
  return write_lists(step, state, inputs, outputs, workspace, 3);
}

#define DATA_DEPENDENT_TACTIC(family, text, OP, reject_fn)                        \
  const carnot_tactic carnot_cuda_##text = {.name = "cuda_" #text,                \
                                            .anchor = CARNOT_OP_##OP,             \
                                            .numerics = CARNOT_NUMERICS_EXACT,    \
                                            .device = true,                       \
                                            .fallback = true,                     \
                                            .reject = reject_fn,                  \
                                            .configure = family##_shape,          \
                                            .infer_output_sizes = family##_count, \
                                            .run = family##_run}
DATA_DEPENDENT_TACTIC(non_zero, non_zero, NON_ZERO, carnot_cuda_generic_op_reject);
DATA_DEPENDENT_TACTIC(compress, compress, COMPRESS, compress_reject);
DATA_DEPENDENT_TACTIC(nms, non_max_suppression, NON_MAX_SUPPRESSION, nms_reject);
