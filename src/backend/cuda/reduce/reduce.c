// Reductions over any axes.
#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/reduce/reduce_params.h"

#define REDUCE_BLOCK(T, DTYPE, A)   CARNOT_CUDA_BY_TYPE(T, DTYPE, reduce_block)
#define REDUCE_THREAD(T, DTYPE, A)  CARNOT_CUDA_BY_TYPE(T, DTYPE, reduce_thread)
#define REDUCE_COLUMNS(T, DTYPE, A) CARNOT_CUDA_BY_TYPE(T, DTYPE, reduce_columns)
static const carnot_cuda_kernel_id kReduceBlock[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REDUCE_TYPES(REDUCE_BLOCK)};
static const carnot_cuda_kernel_id kReduceThread[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REDUCE_TYPES(REDUCE_THREAD)};
static const carnot_cuda_kernel_id kReduceColumns[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REDUCE_TYPES(REDUCE_COLUMNS)};
static const carnot_cuda_kernel_id kReduceVectorColumns[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, reduce_vector_columns)};

static const carnot_cuda_kernel_id kReduceFew[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, reduce_few)};

typedef struct reduce_state {
  CUfunction function;
  carnot_cuda_reduce_params params;
  bool by_block;
  bool by_columns;
  int together;      // results of a thread, where it has its own
  unsigned threads;  // by columns
  int64_t blocks;
} reduce_state;

static int reduction_of(const carnot_plan_node* node) {
  static const char* const kNames[] = {"sum", "mean", "max",     "min",         "prod",
                                       "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square"};
  for (int i = 0; i < 10; i++)
    if (carnot_attr_is(carnot_op_get(node->op), &node->attrs, "fn", kNames[i])) return i;
  return -1;
}

// The reduction, alone or behind a cast of its operand; NULL: another region.
static const carnot_plan_node* reduction_in(const carnot_region* region) {
  const carnot_plan_node *first = region->nodes, *last = first + region->node_count - 1;
  if (region->node_count < 1 || region->node_count > 2 || last->op != CARNOT_OP_REDUCE) return NULL;
  const bool follows = last > first && first->op == CARNOT_OP_CAST && first->inputs[0] == 0 &&
                       last->inputs[0] == first->outputs[0] &&
                       (last->input_count < 2 || last->inputs[1] == 1);
  return first == last || follows ? last : NULL;
}

static const char* reduce_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = reduction_in(problem->region);
  if (!node || problem->output_count != 1) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  if (reduction_of(node) < 0) return "no kernel for this reduction";
  if (x->kind != CARNOT_VALUE_TENSOR || x->rank < 0) return "the input has no known rank";
  carnot_dtype t = x->format.dtype;
  if (t == CARNOT_DTYPE_I16 || t == CARNOT_DTYPE_U16 || !carnot_cuda_type(t))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s", carnot_dtype_name(t));
  const carnot_dtype made = problem->outputs[0].format.dtype;
  if (problem->region->node_count == 2 && !(carnot_cuda_is_half(t) && made == CARNOT_DTYPE_F32))
    return carnot_cuda_reject_reason(reason, size, "a cast from %s to %s, takes half to float32",
                                     carnot_dtype_name(t), carnot_dtype_name(made));
  carnot_cuda_keep_on_host(problem, 1);
  problem->outputs[0].format.layout =
      CARNOT_LAYOUT_ROW_MAJOR;  // the input is read with its strides
  return NULL;
}

static carnot_status* reduced_axes(const carnot_step_view* step, const carnot_operand* inputs,
                                   unsigned* out_mask) {
  const carnot_operand* x = &inputs[0];
  const carnot_plan_node* node = reduction_in(step->region);
  int64_t axes[CARNOT_MAX_RANK];
  int count = -1;
  if (step->input_count > 1)
    CARNOT_TRY(carnot_cuda_ints(&inputs[1], axes, CARNOT_MAX_RANK, &count));
  bool none = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "noop_with_empty_axes") != 0;
  *out_mask = count > 0 || none ? 0 : (1u << x->rank) - 1;
  for (int i = 0; i < count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
    CARNOT_CHECK(axis >= 0 && axis < x->rank, INVALID_MODEL, "axis %lld of rank %d",
                 (long long)axes[i], x->rank);
    *out_mask |= 1u << axis;
  }
  return NULL;
}

// Adds an axis, joined with the one before where the distances allow.
static void add_axis(int64_t dim, int64_t stride, int* rank, long long* dims, long long* strides) {
  if (dim == 1) return;
  if (*rank && strides[*rank - 1] == stride * dim) {
    dims[*rank - 1] *= dim;
    strides[*rank - 1] = stride;
    return;
  }
  dims[*rank] = dim;
  strides[(*rank)++] = stride;
}

// Functions of floats by 16-byte vectors of adjacent results.
static bool is_of_vectors(int fn) {
  return fn <= CARNOT_CUDA_MIN || fn == CARNOT_CUDA_L2 || fn == CARNOT_CUDA_SUM_SQUARE;
}
// Those whose adjacent results are read by such vectors.
static bool takes_pieces(const carnot_operand* x, const carnot_cuda_reduce_params* p) {
  if (!carnot_cuda_is_float(x->format.dtype) || !is_of_vectors(p->fn)) return false;
  int64_t bits = p->kept_dims[p->kept_rank - 1];
  for (int d = 0; d + 1 < p->kept_rank; d++) bits |= p->kept[d];
  for (int d = 0; d < p->reduced_rank; d++) bits |= p->reduced[d];
  return bits % (16 / carnot_cuda_bytes(x)) == 0 && (uintptr_t)x->data % 16 == 0;
}

// Enough blocks for the whole device: first several blocks of a cluster share a long reduction,
// then slices get narrower.
static void share_columns(const carnot_cuda* cuda, const carnot_operand* x, reduce_state* s) {
  enum { kSlice = 8, kLeastSlice = 2, kAtOnce = 4, kLeastSteps = 8 };
  carnot_cuda_reduce_params* p = &s->params;
  bool wide = takes_pieces(x, p);
  int64_t piece = wide ? 16 / carnot_cuda_bytes(x) : 1, pieces = p->kept_count / piece;
  // A line of 128 bytes.
  int64_t least = wide ? kLeastSlice : 32, slice = wide ? kSlice : 32, parts = 1, lanes, blocks;
  for (;;) {
    lanes = piece;
    while (kAtOnce * lanes < p->reduced_count && 2 * lanes * slice <= CARNOT_CUDA_COLUMN_THREADS)
      lanes *= 2;
    blocks = carnot_ceildiv(pieces, slice) * parts;
    if (blocks >= cuda->base.multiprocessor_count) break;
    if (parts < carnot_cuda_cluster_limit(cuda) &&
        p->reduced_count >= kLeastSteps * 2 * parts * lanes)
      parts *= 2;
    else if (slice > least)
      slice /= 2;
    else
      break;
  }
  p->slice = (int)slice, p->parts = (int)parts;
  s->threads = (unsigned)(slice * lanes), s->blocks = blocks;
}

static carnot_status* reduce_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  reduce_state* s = state;
  const carnot_plan_node* node = reduction_in(step->region);
  CARNOT_CHECK(node && reduction_of(node) >= 0, INVALID_MODEL, "the step holds no reduction");
  *s =
      (reduce_state){.params = {.fn = reduction_of(node), .widens = step->region->node_count == 2}};
  unsigned mask;
  CARNOT_TRY(reduced_axes(step, inputs, &mask));
  carnot_cuda_reduce_params* p = &s->params;
  p->kept_count = p->reduced_count = 1;
  for (int d = 0; d < x->rank; d++) {
    bool reduced = mask >> d & 1;
    *(reduced ? &p->reduced_count : &p->kept_count) *= x->dims[d];
    if (reduced)
      add_axis(x->dims[d], x->strides[d], &p->reduced_rank, p->reduced_dims, p->reduced);
    else
      add_axis(x->dims[d], x->strides[d], &p->kept_rank, p->kept_dims, p->kept);
  }
  CARNOT_CHECK(p->kept_count == carnot_dims_count(outputs[0].dims, outputs[0].rank) &&
                   (p->widens ? CARNOT_DTYPE_F32 : x->format.dtype) == outputs[0].format.dtype &&
                   (!p->widens || carnot_cuda_is_half(x->format.dtype)),
               INVALID_ARGUMENT, "the result has another size or type");
  if (!p->reduced_rank) p->reduced_rank = 1, p->reduced_dims[0] = p->reduced_count;
  // Neighbours that read neighbours, else a block each, or a thread where there is little to join.
  bool neighbours = p->kept_rank && p->kept[p->kept_rank - 1] == 1;
  s->by_columns = neighbours && p->kept_count >= 32 && p->reduced_count >= 8 &&
                  p->fn != CARNOT_CUDA_LOG_SUM_EXP;
  s->by_block =
      !s->by_columns && p->reduced_count >= 64 && !(neighbours && p->kept_count >= 1 << 14);
  if (s->by_columns) share_columns(carnot_cuda_of_step(step), x, s);
  const bool few = !p->widens && p->fn <= CARNOT_CUDA_MIN && neighbours && !s->by_columns &&
                   !s->by_block && p->kept_count < UINT32_MAX && p->reduced_count < UINT32_MAX &&
                   takes_pieces(x, p);
  s->together = few ? (int)(16 / carnot_cuda_bytes(x)) : 1;
  const carnot_cuda_kernel_id* kernels =
      s->by_columns ? takes_pieces(x, p) ? kReduceVectorColumns : kReduceColumns
      : s->by_block ? kReduceBlock
      : few         ? kReduceFew
                    : kReduceThread;
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kernels, x->format.dtype, &s->function);
}

static carnot_status* reduce_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  reduce_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  const int64_t grid[3] = {s->params.kept_count, 1, 1}, columns[3] = {s->blocks, 1, 1},
                cluster[3] = {s->params.parts, 1, 1};
  if (s->by_columns)
    return carnot_cuda_launch_clusters(step, s->function, columns, s->threads, cluster,
                                       /*shared_bytes=*/0, &s->params);
  if (!s->by_block)
    return carnot_cuda_launch_threads(step, s->function, s->params.kept_count / s->together,
                                      &s->params);
  return carnot_cuda_launch(step, s->function, grid,
                            carnot_cuda_row_threads(s->params.reduced_count), &s->params);
}

const carnot_tactic carnot_cuda_reduce = {.name = "cuda_reduce",
                                          .anchor = CARNOT_OP_REDUCE,
                                          .numerics = CARNOT_NUMERICS_EXACT,
                                          .device = true,
                                          .reject = reduce_reject,
                                          .configure = reduce_shape,
                                          .run = reduce_run};
