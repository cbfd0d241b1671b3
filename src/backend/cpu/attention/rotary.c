// Rotary position embedding of float32 heads, [B,H,T,d] or [B,T,H*d], at given positions or one
// row of cosines for each batch and time. Inputs: x, cosines, sines, positions.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"

enum { kX, kCosines, kSines, kPositions };

static const char* rotary_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, CARNOT_OP_ROTARY_EMBEDDING);
  if (!why) why = carnot_not_f32(&problem->inputs[kX], "the input", 3, 4, reason, size);
  for (uint32_t i = kCosines; i <= kSines && !why; i++)
    why = carnot_not_f32(&problem->inputs[i], "a cache", 1, CARNOT_MAX_RANK, reason, size);
  if (!why && problem->input_count > kPositions &&
      !carnot_cpu_is_index(problem->inputs[kPositions].format.dtype))
    why = "the positions are no indices";
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* rotary_validate(const carnot_step_view* step) {
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->region->node_count == 1 && node->op == CARNOT_OP_ROTARY_EMBEDDING &&
                   node->input_count == step->input_count && node->input_count > kSines,
               INVALID_MODEL, "the step holds no rotary embedding");
  for (uint32_t i = 0; i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == i, INVALID_MODEL, "operand %u is input %u", i, node->inputs[i]);
  return NULL;
}

typedef struct rotary_state {
  int64_t batch, heads, time, size, half, rows;  // rows of the caches
  int64_t per_part;
  bool heads_last, interleaved;
} rotary_state;

static carnot_status* read_sizes(const carnot_step_view* step, const carnot_operand* x,
                                 rotary_state* s) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  s->heads_last = x->rank == 3;
  s->interleaved = carnot_attr_int(row, &node->attrs, "interleaved") != 0;
  s->batch = x->dims[0];
  s->heads = s->heads_last ? carnot_attr_int(row, &node->attrs, "num_heads") : x->dims[1];
  s->time = x->dims[s->heads_last ? 1 : 2];
  CARNOT_CHECK(s->heads > 0 && (!s->heads_last || x->dims[2] % s->heads == 0), INVALID_MODEL,
               "%lld elements do not divide into %lld heads", (long long)x->dims[2],
               (long long)s->heads);
  s->size = s->heads_last ? x->dims[2] / s->heads : x->dims[3];
  int64_t turned = carnot_attr_int(row, &node->attrs, "rotary_embedding_dim");
  if (turned == 0) turned = s->size;
  CARNOT_CHECK(turned > 0 && turned % 2 == 0 && turned <= s->size, INVALID_MODEL,
               "%lld elements turn of a head of %lld; an even number up to it is required",
               (long long)turned, (long long)s->size);
  s->half = turned / 2;
  return NULL;
}

static carnot_status* rotary_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  rotary_state* s = memory;
  const carnot_operand *x = &inputs[kX], *cosines = &inputs[kCosines], *sines = &inputs[kSines],
                       *positions = step->input_count > kPositions ? &inputs[kPositions] : NULL;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && (x->rank == 3 || x->rank == 4) &&
                   cosines->format.dtype == CARNOT_DTYPE_F32 && cosines->rank > 0 &&
                   sines->format.dtype == CARNOT_DTYPE_F32 && carnot_cpu_is_dense(cosines) &&
                   carnot_cpu_is_dense(sines),
               INVALID_MODEL, "the input is %s of rank %d", carnot_dtype_name(x->format.dtype),
               x->rank);
  CARNOT_TRY(carnot_cpu_check_alike(x, &outputs[0]));
  CARNOT_TRY(read_sizes(step, x, s));
  const int64_t last = cosines->dims[cosines->rank - 1], tokens = s->batch * s->time;
  s->rows = carnot_dims_count(cosines->dims, cosines->rank - 1);
  CARNOT_CHECK(last == s->half && carnot_dims_count(sines->dims, sines->rank) == s->rows * s->half,
               INVALID_MODEL, "the last dimension of the caches is %lld; %lld is required",
               (long long)last, (long long)s->half);
  const int64_t given = positions ? carnot_dims_count(positions->dims, positions->rank) : s->rows;
  CARNOT_CHECK(given == tokens && (!positions || (carnot_cpu_is_index(positions->format.dtype) &&
                                                  carnot_cpu_is_dense(positions))),
               INVALID_MODEL, "%lld positions for %lld batches of %lld", (long long)given,
               (long long)s->batch, (long long)s->time);
  s->per_part = carnot_rows_per_part(tokens * s->heads, s->size);
  return NULL;
}

typedef struct rotary_run {
  const rotary_state* s;
  carnot_rotary_f32_fn* kernel;
  const float *x, *cosines, *sines;
  const carnot_operand* positions;  // NULL: row i for batch and time i
  float* y;
} rotary_run;

static void rotary_part(void* argument, int64_t part) {
  const rotary_run* run = argument;
  const rotary_state* s = run->s;
  const int64_t first = part * s->per_part,
                last = carnot_min_i64(first + s->per_part, s->batch * s->time * s->heads);
  for (int64_t i = first; i < last; i++) {  // heads in memory order
    const int64_t token = s->heads_last ? i / s->heads
                                        : i / (s->heads * s->time) * s->time + i % s->time,
                  row = run->positions ? carnot_cpu_index_at(run->positions, token) : token;
    run->kernel(s->size, s->half, s->interleaved, run->x + i * s->size,
                run->cosines + row * s->half, run->sines + row * s->half, run->y + i * s->size);
  }
}

static carnot_status* rotary_run_all(const carnot_step_view* step, void* memory,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace;
  const rotary_state* s = memory;
  rotary_run run = {.s = s,
                    .kernel = carnot_cpu_kernels_of(step->tactic->isa)->rotary_f32,
                    .x = inputs[kX].data,
                    .cosines = inputs[kCosines].data,
                    .sines = inputs[kSines].data,
                    .positions = step->input_count > kPositions ? &inputs[kPositions] : NULL,
                    .y = outputs[0].data};
  for (int64_t i = 0; run.positions && i < s->batch * s->time; i++) {
    const int64_t row = carnot_cpu_index_at(run.positions, i);
    CARNOT_CHECK(row >= 0 && row < s->rows, INVALID_ARGUMENT, "position %lld is outside [0, %lld)",
                 (long long)row, (long long)s->rows);
  }
  carnot_executor_parallel(executor, carnot_ceildiv(s->batch * s->time * s->heads, s->per_part),
                           rotary_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(rotary_f32, .anchor = CARNOT_OP_ROTARY_EMBEDDING, .reject = rotary_reject,
                   .validate = rotary_validate, .configure = rotary_configure,
                   .run = rotary_run_all);
