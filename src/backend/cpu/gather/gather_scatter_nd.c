// GatherND and ScatterND: runs of elements are read or written by rows of indices.
//   gather_nd:  y[row r] = x[batch of r][index[r]]
//   scatter_nd: y = x, then y[index[r]] = updates[row r] in the order of r (no reduction)
// |table| is x of a gather and y of a scatter; a row of |list| goes with a row of indices.
#include <stdatomic.h>

#include "backend/cpu/common/cpu.h"
#include "ops/indices.h"

static bool is_reduced(const carnot_plan_node* node) {
  return !carnot_attr_is(carnot_op_get(node->op), &node->attrs, "reduction", "none");
}

static const char* scatter_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_moves_by_index(problem, reason, size);
  if (why) return why;
  return is_reduced(&problem->region->nodes[0]) ? "this reduction has no kernel" : NULL;
}

typedef struct nd_state {
  int depth;  // indices of a row
  int64_t dims[CARNOT_MAX_RANK];
  int64_t rows, rows_of_batch;
  int64_t batch_bytes;  // from the table of one batch to the next
  int64_t run_bytes;    // of a row of the list
  int64_t per_part;     // rows of a gather, bytes of each run of a scatter
} nd_state;

// |batch| dimensions in front, which table and list share.
static carnot_status* nd_configure(const carnot_operand* table, const carnot_operand* index,
                                   const carnot_operand* list, int batch, nd_state* s) {
  CARNOT_CHECK(table->format.dtype == list->format.dtype &&
                   carnot_cpu_is_whole(table->format.dtype) &&
                   carnot_cpu_is_index(index->format.dtype) && carnot_cpu_is_dense(table) &&
                   carnot_cpu_is_dense(index) && carnot_cpu_is_dense(list),
               INVALID_ARGUMENT, "elements of %s and %s by indices of %s",
               carnot_dtype_name(table->format.dtype), carnot_dtype_name(list->format.dtype),
               carnot_dtype_name(index->format.dtype));
  CARNOT_CHECK(index->rank >= 1 && batch >= 0 && batch < index->rank && batch <= table->rank &&
                   index->dims[index->rank - 1] >= 0 &&
                   index->dims[index->rank - 1] <= table->rank - batch,
               INVALID_MODEL, "indices of rank %d for an input of rank %d, %d batch dimensions",
               index->rank, table->rank, batch);
  const int bytes = carnot_dtype_bits(table->format.dtype) / 8;
  *s = (nd_state){.depth = (int)index->dims[index->rank - 1]};
  memcpy(s->dims, table->dims + batch, (size_t)s->depth * sizeof(int64_t));
  const int64_t batches = carnot_dims_count(table->dims, batch);
  s->rows = carnot_dims_count(index->dims, index->rank - 1);
  CARNOT_CHECK(batches == carnot_dims_count(index->dims, batch), INVALID_MODEL,
               "the batch dimensions of input and indices differ");
  s->rows_of_batch = batches ? s->rows / batches : 0;
  s->batch_bytes = bytes * carnot_dims_count(table->dims + batch, table->rank - batch);
  s->run_bytes =
      bytes * carnot_dims_count(table->dims + batch + s->depth, table->rank - batch - s->depth);
  CARNOT_CHECK(carnot_dims_count(list->dims, list->rank) * bytes == s->rows * s->run_bytes,
               INVALID_MODEL, "%lld updates where %lld belong",
               (long long)carnot_dims_count(list->dims, list->rank),
               (long long)(s->rows * s->run_bytes / bytes));
  return NULL;
}

static carnot_status* gather_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  nd_state* s = memory;
  const carnot_plan_node* node = &step->region->nodes[0];
  *out_workspace_bytes = 0;
  const int64_t batch = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "batch_dims");
  CARNOT_CHECK(batch >= 0 && batch < CARNOT_MAX_RANK, INVALID_MODEL, "batch_dims is %lld",
               (long long)batch);
  CARNOT_TRY(nd_configure(&inputs[0], &inputs[1], &outputs[0], (int)batch, s));
  s->per_part = carnot_rows_per_part(s->rows, s->run_bytes / 4 + s->depth);
  return NULL;
}

static carnot_status* scatter_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  nd_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(!is_reduced(&step->region->nodes[0]), INVALID_MODEL, "a reduction has no kernel");
  CARNOT_TRY(carnot_cpu_check_alike(&inputs[0], &outputs[0]));
  CARNOT_TRY(nd_configure(&outputs[0], &inputs[1], &inputs[2], 0, s));
  // Rows with equal indices follow one another: each part has its share of all runs.
  enum { kLine = 64 };
  const int64_t lines = carnot_ceildiv(s->run_bytes, kLine);
  s->per_part = carnot_rows_per_part(lines, s->rows * kLine / 4) * kLine;
  return NULL;
}

// ---- run ----

typedef struct nd_run {
  const nd_state* s;
  const carnot_operand* index;
  char *table, *list;
  atomic_bool failed;
} nd_run;

// Where the run of row |r| begins in the table; -1: an index is out of range.
CARNOT_CPU_INLINE int64_t offset_of(const nd_run* run, int64_t r) {
  const nd_state* s = run->s;
  int64_t position = 0;
  for (int k = 0; k < s->depth; k++) {
    int64_t at = carnot_cpu_index_at(run->index, r * s->depth + k);
    at += at < 0 ? s->dims[k] : 0;
    if ((uint64_t)at >= (uint64_t)s->dims[k]) return -1;
    position = position * s->dims[k] + at;
  }
  return r / s->rows_of_batch * s->batch_bytes + position * s->run_bytes;
}

CARNOT_CPU_INLINE bool gather_rows(const nd_run* run, int64_t begin, int64_t end, size_t bytes) {
  for (int64_t r = begin; r < end; r++) {
    const int64_t at = offset_of(run, r);
    if (at < 0) return false;
    memcpy(run->list + (size_t)r * bytes, run->table + at, bytes);
  }
  return true;
}

static void gather_part(void* argument, int64_t part) {
  nd_run* run = argument;
  const nd_state* s = run->s;
  const int64_t begin = part * s->per_part, end = carnot_min_i64(begin + s->per_part, s->rows);
  // Single elements are moves of a constant width.
  const bool done = s->run_bytes == 4   ? gather_rows(run, begin, end, 4)
                    : s->run_bytes == 8 ? gather_rows(run, begin, end, 8)
                                        : gather_rows(run, begin, end, (size_t)s->run_bytes);
  if (!done) atomic_store_explicit(&run->failed, true, memory_order_relaxed);
}

static void scatter_part(void* argument, int64_t part) {
  nd_run* run = argument;
  const nd_state* s = run->s;
  const int64_t begin = part * s->per_part, end = carnot_min_i64(begin + s->per_part, s->run_bytes);
  for (int64_t r = 0; r < s->rows; r++) {
    const int64_t at = offset_of(run, r);
    if (at < 0) {
      atomic_store_explicit(&run->failed, true, memory_order_relaxed);
      return;
    }
    memcpy(run->table + at + begin, run->list + r * s->run_bytes + begin, (size_t)(end - begin));
  }
}

// The first of the indices that is out of range, as the reference would meet it.
static carnot_status* bad_index(const nd_run* run) {
  const nd_state* s = run->s;
  int64_t at;
  for (int64_t i = 0; i < s->rows * s->depth; i++)
    CARNOT_TRY(carnot_index(carnot_cpu_index_at(run->index, i), s->dims[i % s->depth], i, &at));
  return NULL;
}

static carnot_status* gather_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)step, (void)workspace;
  const nd_state* s = state;
  nd_run run = {s, &inputs[1], inputs[0].data, outputs[0].data, false};
  if (!s->rows || !s->run_bytes) return NULL;
  carnot_executor_parallel(executor, carnot_ceildiv(s->rows, s->per_part), gather_part, &run);
  return run.failed ? bad_index(&run) : NULL;
}

static carnot_status* scatter_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  const nd_state* s = state;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  nd_run run = {s, &inputs[1], y->data, inputs[2].data, false};
  carnot_cpu_copy(step, executor, x->rank, x->dims, carnot_dtype_bits(x->format.dtype) / 8, x->data,
                  x->strides, y->data, y->strides);
  if (!s->rows || !s->run_bytes) return NULL;
  carnot_executor_parallel(executor, carnot_ceildiv(s->run_bytes, s->per_part), scatter_part, &run);
  return run.failed ? bad_index(&run) : NULL;
}

const carnot_tactic carnot_tactic_gather_nd = {.name = "cpu_gather_nd",
                                               .anchor = CARNOT_OP_GATHER_ND,
                                               .isa = CARNOT_ISA_SCALAR,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .reject = carnot_cpu_moves_by_index,
                                               .validate = carnot_cpu_check_single,
                                               .configure = gather_configure,
                                               .run = gather_run};
const carnot_tactic carnot_tactic_scatter_nd = {.name = "cpu_scatter_nd",
                                                .anchor = CARNOT_OP_SCATTER_ND,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = CARNOT_NUMERICS_EXACT,
                                                .reject = scatter_reject,
                                                .validate = carnot_cpu_check_single,
                                                .configure = scatter_configure,
                                                .run = scatter_run};
