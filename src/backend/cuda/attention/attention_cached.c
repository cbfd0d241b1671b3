// The Attention operator over caches whose heads are whole 16-byte loads (flash decoding).
#include "backend/cuda/attention/attention_generic.h"
#include "kernel/cuda/attention/attention_cached_params.h"

#define OF_ROWS(ROWS, T) \
  {ROWS, {CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, attention_cached_##ROWS)}},
static const struct {
  int rows;
  carnot_cuda_kernel_id kernels[CARNOT_DTYPE_COUNT];
} kTiles[] = {CARNOT_CUDA_ATTENTION_CACHED_ROWS(OF_ROWS, )};
#undef OF_ROWS
static const carnot_cuda_kernel_id kMerge[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, attention_cached_merge)};

enum { kMostKeys = 1 << 30 };

typedef struct cached_state {
  carnot_cuda_generic_state generic;  // of carnot_cuda_attention_cached_params
  CUfunction merge;
  int64_t blocks;
  size_t shared_bytes;
} cached_state;
_Static_assert(sizeof(cached_state) <= CARNOT_STATE_BYTES, "the state has its size");
_Static_assert(sizeof(carnot_cuda_attention_cached_params) <=
                   sizeof(((cached_state*)0)->generic.params),
               "the parameters have their size");

// A head is read in a power of two of 16-byte loads, by at most a warp.
static bool is_head_size(int64_t size, carnot_dtype dtype) {
  const int64_t bytes = size * carnot_dtype_bits(dtype) / 8;
  return bytes >= 16 && bytes <= 512 && (bytes & (bytes - 1)) == 0;
}

static const char* attention_cached_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cuda_generic_op_reject(problem, reason, size);
  if (why) return why;
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  if (problem->region->output_count != 1) return "more results than one";
  for (uint32_t i = 4; i < 6 && i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE) return "keys of a past apart from the others";
  for (uint32_t i = 0; i < 3; i++) {
    const carnot_operand_desc* t = &problem->inputs[node->inputs[i]];
    const char* attr = i == 0 ? "q_num_heads" : "kv_num_heads";
    const int64_t heads = t->rank == 3 ? carnot_attr_int(row, &node->attrs, attr) : 1;
    if (t->format.dtype != problem->outputs[0].format.dtype ||
        !carnot_cuda_is_float(t->format.dtype))
      return carnot_cuda_reject_reason(reason, size, "operands of %s and results of %s",
                                       carnot_dtype_name(t->format.dtype),
                                       carnot_dtype_name(problem->outputs[0].format.dtype));
    const int64_t last = t->dims[t->rank - 1];
    if (heads < 1 || last < 0 || last % heads || !is_head_size(last / heads, t->format.dtype))
      return carnot_cuda_reject_reason(
          reason, size,
          "%lld elements of %lld heads, takes heads of a power of two, 16 to 512 bytes",
          (long long)last, (long long)heads);
  }
  return NULL;
}

// 16-byte loads of the longer of a key and its values.
static int64_t lanes_of(const carnot_cuda_attention_generic_params* p, int64_t bytes) {
  return carnot_max_i64(p->size, p->value_size) * bytes / 16;
}

// The least tile that holds all rows of a KV head, else the greatest.
static size_t choose_tile(const carnot_cuda_attention_generic_params* p, int64_t bytes,
                          int64_t most_bytes) {
  const int64_t rows = p->q_heads / p->kv_heads * p->queries;
  size_t at = 0;
  while (at + 1 < sizeof(kTiles) / sizeof(kTiles[0]) && kTiles[at].rows < rows &&
         kTiles[at + 1].rows <= lanes_of(p, bytes) &&
         CARNOT_CUDA_ATTENTION_CACHED_PARTS(kTiles[at + 1].rows, p->value_size) <= most_bytes)
    at++;
  return at;
}

// Shares of the keys of each tile: as many as multiprocessors hold at a time, of a stage or more.
static int64_t choose_splits(const carnot_cuda* cuda, const carnot_cuda_attention_generic_params* p,
                             int64_t bytes, int64_t rows, int64_t blocks) {
  const int64_t room = (int64_t)cuda->base.multiprocessor_count *
                       CARNOT_CUDA_ATTENTION_CACHED_RESIDENT(rows, bytes) / blocks,
                keys =
                    CARNOT_CUDA_THREADS / lanes_of(p, bytes) * CARNOT_CUDA_ATTENTION_CACHED_AHEAD,
                most = carnot_min_i64(CARNOT_CUDA_ATTENTION_CACHED_SPLITS,
                                      carnot_ceildiv(p->keys, keys));
  return carnot_max_i64(1, carnot_min_i64(room, most));
}

static carnot_status* cached_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  cached_state* s = state;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_attention_cached_params all;
  carnot_cuda_attention_generic_params* p = &all.attention;
  CARNOT_TRY(carnot_cuda_attention_generic_read(step, inputs, outputs, p));
  const carnot_dtype dtype = outputs[0].format.dtype;
  for (int i = 0; i < 3; i++)
    CARNOT_CHECK(inputs[i].format.dtype == dtype, INVALID_ARGUMENT, "operand %d is %s, must be %s",
                 i, carnot_dtype_name(inputs[i].format.dtype), carnot_dtype_name(dtype));
  CARNOT_CHECK(carnot_cuda_is_float(dtype) && is_head_size(p->size, dtype) &&
                   is_head_size(p->value_size, dtype) && !p->past && p->keys <= kMostKeys,
               INVALID_ARGUMENT, "heads of %lld and %lld, %lld keys behind %lld",
               (long long)p->size, (long long)p->value_size, (long long)p->keys,
               (long long)p->past);
  const int64_t bytes = carnot_dtype_bits(dtype) / 8, most_bytes = cuda->block_bytes - 1024;
  const size_t tile = choose_tile(p, bytes, most_bytes);
  const int64_t rows = kTiles[tile].rows, heads = inputs[0].dims[0] * p->kv_heads;
  all.tiles = (int)carnot_ceildiv(p->q_heads / p->kv_heads * p->queries, rows);
  all.splits = p->rows ? (int)choose_splits(cuda, p, bytes, rows, heads * all.tiles) : 1;
  *out_workspace_bytes = 0;
  if (all.splits > 1)
    *out_workspace_bytes = (size_t)(all.splits * p->rows * (p->value_size + 2)) * sizeof(float);
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_NONE, p->rows,
                                       &all, sizeof(all), &s->generic));
  s->blocks = heads * all.tiles * all.splits;
  s->shared_bytes = (size_t)carnot_max_i64((int64_t)CARNOT_CUDA_ATTENTION_CACHED_STAGE *
                                               CARNOT_CUDA_ATTENTION_CACHED_STAGES(cuda->major),
                                           CARNOT_CUDA_ATTENTION_CACHED_PARTS(rows, p->value_size));
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kMerge, dtype, &s->merge));
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kTiles[tile].kernels, dtype, &s->generic.function));
  return carnot_cuda_allow_shared(cuda, s->generic.function);
}

static carnot_status* cached_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)executor;
  static const int64_t kNoCluster[3] = {1, 1, 1};
  cached_state* s = state;
  carnot_cuda_attention_cached_params* p = (carnot_cuda_attention_cached_params*)s->generic.params;
  carnot_cuda_generic_bind(step, inputs, outputs, workspace, &p->attention.io);
  if (!p->attention.rows) return NULL;
  const int64_t grid[3] = {s->blocks, 1, 1}, rows[3] = {p->attention.rows, 1, 1};
  CARNOT_TRY(carnot_cuda_launch_clusters(step, s->generic.function, grid, CARNOT_CUDA_THREADS,
                                         kNoCluster, s->shared_bytes, p));
  return p->splits == 1 ? NULL : carnot_cuda_launch(step, s->merge, rows, CARNOT_CUDA_THREADS, p);
}

const carnot_tactic carnot_cuda_attention_cached = {.name = "cuda_attention_cached",
                                                    .anchor = CARNOT_OP_ATTENTION,
                                                    .numerics = CARNOT_NUMERICS_EXACT,
                                                    .device = true,
                                                    .reject = attention_cached_reject,
                                                    .configure = cached_shape,
                                                    .run = cached_run};
