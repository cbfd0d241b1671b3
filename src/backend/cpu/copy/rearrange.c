// Transpose, DepthToSpace, SpaceToDepth, Expand and Tile as one strided copy, in any layout and any
// type of whole bytes.
#include "backend/cpu/copy/strided_copy.h"
#include "tactic/problem/depth_space.h"

// ---- transpose ----

static const char* transpose_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_alone(problem, CARNOT_OP_TRANSPOSE);
  if (!why) why = carnot_cpu_moves_bytes(problem, reason, size);
  if (!why)
    problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;  // the input is read in any layout
  return why;
}

static void read_permutation(const carnot_step_view* step, int rank, int* perm) {
  size_t count;
  const int64_t* given = carnot_attr_ints(&step->region->nodes[0].attrs, "perm", &count);
  for (int d = 0; d < rank; d++)
    perm[d] = given && count == (size_t)rank ? (int)given[d] : rank - 1 - d;
}

static carnot_status* transpose_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* state,
                                          size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  int perm[CARNOT_MAX_RANK];
  CARNOT_CHECK(
      inputs[0].format.dtype == outputs[0].format.dtype && inputs[0].rank == outputs[0].rank,
      INVALID_ARGUMENT, "a transpose between types or ranks");
  read_permutation(step, inputs[0].rank, perm);
  for (int d = 0; d < inputs[0].rank; d++)
    CARNOT_CHECK(
        perm[d] >= 0 && perm[d] < inputs[0].rank && outputs[0].dims[d] == inputs[0].dims[perm[d]],
        INVALID_ARGUMENT, "axis %d of a transpose is axis %d of its input", d, perm[d]);
  return NULL;
}

static carnot_status* transpose_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  int perm[CARNOT_MAX_RANK];
  int64_t strides[CARNOT_MAX_RANK];
  read_permutation(step, inputs[0].rank, perm);
  for (int d = 0; d < inputs[0].rank; d++) strides[d] = inputs[0].strides[perm[d]];
  carnot_cpu_copy(step, executor, outputs[0].rank, outputs[0].dims, carnot_cpu_bytes(&inputs[0]),
                  inputs[0].data, strides, outputs[0].data, outputs[0].strides);
  return NULL;
}

const carnot_tactic carnot_tactic_transpose = {.name = "cpu_transpose",
                                               .anchor = CARNOT_OP_TRANSPOSE,
                                               .isa = CARNOT_ISA_SCALAR,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .strided_outputs = true,
                                               .takes_bf16 = true,
                                               .reject = transpose_reject,
                                               .configure = transpose_configure,
                                               .run = transpose_run};

// ---- depth to space and back ----

static const char* depth_space_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_is_depth_space(problem->region)) return "";
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* depth_space_configure(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return carnot_depth_space_copy_of(&step->region->nodes[0], &inputs[0], &outputs[0], state);
}

static carnot_status* depth_space_run(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  (void)workspace;
  const carnot_depth_space_copy* b = state;
  carnot_cpu_copy(step, executor, 6, b->dims, carnot_cpu_bytes(&inputs[0]), inputs[0].data, b->src,
                  outputs[0].data, b->dst);
  return NULL;
}

const carnot_tactic carnot_tactic_depth_space = {.name = "cpu_depth_space",
                                                 .anchor = CARNOT_OP_COUNT,
                                                 .isa = CARNOT_ISA_SCALAR,
                                                 .numerics = CARNOT_NUMERICS_EXACT,
                                                 .reject = depth_space_reject,
                                                 .configure = depth_space_configure,
                                                 .run = depth_space_run};

// ---- expand and tile: axes that repeat are read with stride 0 ----

typedef struct repetition {
  int rank;
  int64_t dims[CARNOT_COPY_MAX_RANK], src[CARNOT_COPY_MAX_RANK], dst[CARNOT_COPY_MAX_RANK];
} repetition;
_Static_assert(sizeof(repetition) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* repeat_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_alone(problem, problem->tactic->anchor);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  if (!why) problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static const char* tile_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = repeat_reject(problem, reason, size);
  if (!why && problem->inputs[0].rank * 2 > CARNOT_COPY_MAX_RANK)
    why = carnot_because(reason, size, "rank %d, takes up to %d", problem->inputs[0].rank,
                         CARNOT_COPY_MAX_RANK / 2);
  return why;
}

static carnot_status* expand_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  (void)step;
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  int new_axes = y->rank - x->rank;
  CARNOT_CHECK(x->format.dtype == y->format.dtype && new_axes >= 0, INVALID_ARGUMENT,
               "operands of %s and %s, ranks %d and %d", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype), x->rank, y->rank);
  repetition* r = state;
  *r = (repetition){.rank = y->rank};
  for (int d = 0; d < y->rank; d++) {
    int64_t size = d < new_axes ? 1 : x->dims[d - new_axes];
    CARNOT_CHECK(size == 1 || size == y->dims[d], INVALID_ARGUMENT,
                 "dimension %d has %lld, must have 1 or %lld", d, (long long)size,
                 (long long)y->dims[d]);
    r->dims[d] = y->dims[d], r->dst[d] = y->strides[d];
    if (size > 1) r->src[d] = x->strides[d - new_axes];
  }
  return NULL;
}

// Each axis as two: how often it repeats, and itself.
static carnot_status* tile_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  (void)step;
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cpu_check_types(x, y));
  CARNOT_CHECK(x->rank * 2 <= CARNOT_COPY_MAX_RANK, INVALID_ARGUMENT, "rank %d", x->rank);
  repetition* r = state;
  *r = (repetition){.rank = x->rank * 2};
  for (int d = 0; d < x->rank; d++) {
    int64_t size = carnot_max_i64(1, x->dims[d]);
    CARNOT_CHECK(y->dims[d] % size == 0 && (x->dims[d] || !y->dims[d]), INVALID_ARGUMENT,
                 "dimension %d has %lld, no multiple of %lld", d, (long long)y->dims[d],
                 (long long)x->dims[d]);
    r->dims[2 * d] = y->dims[d] / size, r->dst[2 * d] = y->strides[d] * size;
    r->dims[2 * d + 1] = x->dims[d], r->dst[2 * d + 1] = y->strides[d];
    r->src[2 * d + 1] = x->strides[d];
  }
  return NULL;
}

static carnot_status* repeat_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)workspace;
  const repetition* r = state;
  carnot_cpu_copy(step, executor, r->rank, r->dims, carnot_cpu_bytes(&inputs[0]), inputs[0].data,
                  r->src, outputs[0].data, r->dst);
  return NULL;
}

#define REPEAT_TACTIC(family, OP, reject_fn)                                       \
  const carnot_tactic carnot_tactic_##family = {.name = "cpu_" #family,            \
                                                .anchor = OP,                      \
                                                .isa = CARNOT_ISA_SCALAR,          \
                                                .numerics = CARNOT_NUMERICS_EXACT, \
                                                .strided_outputs = true,           \
                                                .reject = reject_fn,               \
                                                .configure = family##_configure,   \
                                                .run = repeat_run}
REPEAT_TACTIC(expand, CARNOT_OP_EXPAND, repeat_reject);
REPEAT_TACTIC(tile, CARNOT_OP_TILE, tile_reject);
