// Attention regions of 16-bit floats by the built-in kernels (FlashAttention-2). Heads are read
// and written in place, by strides. The result may be written as bytes.
#include "backend/cuda/attention/attention.h"

#include <string.h>

enum { kMaskWorthKinds = 1 << 20 };

typedef struct attention_state {
  CUfunction function;
  carnot_cuda_attention_kinds kinds;
  carnot_cuda_attention_params params;
  carnot_cuda_attention_offsets at;
  int64_t grid[3];
  unsigned threads;
} attention_state;

static bool is_half(carnot_dtype t) { return carnot_cuda_is_half(t); }

const char* carnot_cuda_attention_reject_heads(const carnot_problem* problem,
                                               const carnot_attention_params* p, char* reason,
                                               size_t size) {
  const carnot_operand_desc *q = &problem->inputs[p->q.input], *v = &problem->inputs[p->v.input];
  int64_t elements = q->dims[q->rank - 1], values = v->dims[v->rank - 1];
  if (carnot_attention_batches(&p->q) > 2 || carnot_attention_batches(&p->k) > 2 ||
      carnot_attention_batches(&p->v) > 2 || p->out.rank > 4)
    return "heads in more than two batches";
  if (elements % 8 || values % 8 || elements > CARNOT_CUDA_ATTENTION_MOST_ELEMENTS ||
      values > CARNOT_CUDA_ATTENTION_MOST_ELEMENTS || !elements)
    return carnot_cuda_reject_reason(reason, size, "heads of %lld and %lld, takes eights up to %d",
                                     (long long)elements, (long long)values,
                                     CARNOT_CUDA_ATTENTION_MOST_ELEMENTS);
  return NULL;
}

carnot_dtype carnot_cuda_attention_softmax_type(const carnot_problem* problem) {
  for (uint32_t n = 0; n < problem->region->node_count; n++) {
    const carnot_plan_node* node = &problem->region->nodes[n];
    if (node->op == CARNOT_OP_SOFTMAX)
      return problem->inner[node->outputs[0] - problem->input_count].format.dtype;
  }
  return CARNOT_DTYPE_INVALID;
}

static const char* read_stored(const carnot_problem* problem, carnot_cuda_attention_stored* out,
                               char* reason, size_t size) {
  carnot_quantized_end end;
  const carnot_dtype dtype = carnot_cuda_attention_softmax_type(problem);
  *out = (carnot_cuda_attention_stored){.dtype = (int32_t)dtype};
  if (!is_half(dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s", carnot_dtype_name(dtype));
  const char* why =
      carnot_attention_read_quantized(problem, dtype, &out->attention, &end, reason, size);
  if (why || !carnot_is_end_bytes(&end)) return why;
  return carnot_cuda_byte_result_read(problem, &end, 0, &out->result);
}

const char* carnot_cuda_attention_reject(carnot_problem* problem, carnot_cuda_attention_stored* out,
                                         char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  const char* why = read_stored(problem, out, reason, size);
  if (!why) why = carnot_cuda_attention_reject_heads(problem, &out->attention, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  return NULL;
}

static const char* attention_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_attention_stored stored;
  return carnot_cuda_attention_reject(problem, &stored, reason, size);
}

carnot_status* carnot_cuda_attention_store(const carnot_cuda_attention_stored* stored,
                                           carnot_prepared* out) {
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(*stored), "parameters", &params));
  memcpy(params, stored, sizeof(*stored));
  out->params = params;
  out->param_bytes = sizeof(*stored);
  return NULL;
}

carnot_status* carnot_cuda_attention_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_attention_stored stored;
  char reason[256];
  const char* why = read_stored(problem, &stored, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  return carnot_cuda_attention_store(&stored, out);
}

carnot_status* carnot_cuda_attention_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_cuda_attention_stored), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_cuda_attention_stored));
  const carnot_cuda_attention_stored* stored = step->params;
  return carnot_attention_check_views(&stored->attention, step);
}

bool carnot_cuda_attention_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_attention_params* p =
      &((const carnot_cuda_attention_stored*)step->params)->attention;
  int32_t at = (int32_t)input;
  return at == p->q.input || at == p->k.input || at == p->v.input || at == p->mask;
}

// Strides of outer batch, inner batch and rows. The result's batch axes are the reference; an
// operand that has fewer sees them joined.
static carnot_status* set_strides(const carnot_heads* h, const carnot_heads* out,
                                  long long strides[3]) {
  int rank = h->batch_rank;
  strides[0] = rank > 1 ? h->batch_strides[0] : 0;
  strides[1] = rank > 0 ? h->batch_strides[rank - 1] : 0;
  strides[2] = h->ld;
  int64_t inner = out->batch_rank ? out->batch_dims[out->batch_rank - 1] : 1;
  if (rank == 1 && out->batch_rank == 2) strides[0] = inner * h->batch_strides[0];
  bool splits = rank == 2 && (out->batch_rank < 2 || h->batch_dims[1] != inner);
  CARNOT_CHECK(!splits || h->batch_strides[0] == h->batch_dims[1] * h->batch_strides[1],
               UNSUPPORTED, "heads in batches of %lld beside %lld", (long long)h->batch_dims[1],
               (long long)inner);
  if (splits) strides[0] = inner * strides[1];
  return NULL;
}

// To |vector| bytes.
static bool is_aligned(const carnot_operand* t, int64_t offset, const long long strides[3],
                       unsigned vector) {
  const int bytes = carnot_cuda_bytes(t);
  uintptr_t bits = (uintptr_t)t->data | (uintptr_t)offset;
  for (int i = 0; i < 3; i++) bits |= (uintptr_t)(strides[i] * bytes);
  return bits % vector == 0;
}

static carnot_status* describe_mask(const carnot_operand* mask, carnot_dtype dtype,
                                    const carnot_heads* y, carnot_cuda_attention_params* to) {
  int64_t strides[CARNOT_MAX_RANK] = {0}, ld;
  CARNOT_TRY(carnot_cuda_on_device(mask, 1));
  CARNOT_CHECK(mask->format.dtype == CARNOT_DTYPE_F32 || mask->format.dtype == dtype,
               INVALID_ARGUMENT, "the mask is %s", carnot_dtype_name(mask->format.dtype));
  CARNOT_TRY(carnot_attention_mask(mask, y, to->keys, strides, &ld));
  to->mask_s[0] = y->batch_rank > 1 ? strides[0] : 0;
  to->mask_s[1] = y->batch_rank > 0 ? strides[y->batch_rank - 1] : 0;
  to->mask_s[2] = ld;
  to->mask_is_float = mask->format.dtype == CARNOT_DTYPE_F32;
  to->mask_in_pairs = (to->mask_s[0] | to->mask_s[1] | to->mask_s[2] | to->keys) % 2 == 0 &&
                      (uintptr_t)mask->data % (2 * carnot_cuda_bytes(mask)) == 0;
  return NULL;
}

// |y| holds values of |dtype|, or their bytes.
static carnot_status* check_result(const carnot_cuda_byte_result* result, carnot_dtype dtype,
                                   const carnot_operand* y) {
  const bool is_byte = result && result->type != CARNOT_CUDA_BYTE_NONE;
  const bool fits =
      is_byte ? carnot_cuda_byte_result_fits(result, y->format.dtype) : y->format.dtype == dtype;
  CARNOT_CHECK(fits, INVALID_MODEL, "the result is %s of values of %s",
               carnot_dtype_name(y->format.dtype), carnot_dtype_name(dtype));
  return NULL;
}

carnot_status* carnot_cuda_attention_describe_heads(const carnot_attention_params* p,
                                                    carnot_dtype dtype,
                                                    const carnot_operand* inputs,
                                                    const carnot_operand* outputs,
                                                    carnot_cuda_attention_params* to,
                                                    carnot_cuda_attention_offsets* out_at) {
  const carnot_operand *q = &inputs[p->q.input], *k = &inputs[p->k.input], *v = &inputs[p->v.input],
                       *y = &outputs[0];
  const carnot_operand used[] = {*q, *k, *v, *y};
  CARNOT_TRY(carnot_cuda_on_device(used, 4));
  carnot_heads hq, hk, hv, hy;
  CARNOT_TRY(carnot_heads_make(&p->q, q, q->format.dtype, &hq));
  CARNOT_TRY(carnot_heads_make(&p->k, k, k->format.dtype, &hk));
  CARNOT_TRY(carnot_heads_make(&p->v, v, v->format.dtype, &hv));
  CARNOT_TRY(carnot_heads_make(&p->out, y, y->format.dtype, &hy));
  CARNOT_TRY(carnot_heads_check(&hq, &hk, &hv, &hy));
  CARNOT_CHECK(hq.elements <= CARNOT_CUDA_ATTENTION_MOST_ELEMENTS &&
                   hv.elements <= CARNOT_CUDA_ATTENTION_MOST_ELEMENTS && hq.rows <= INT32_MAX &&
                   hk.rows <= INT32_MAX && hy.batch_rank <= 2 && hq.batch_rank <= 2 &&
                   hk.batch_rank <= 2 && hv.batch_rank <= 2,
               UNSUPPORTED, "%lld heads of %lld and %lld elements", (long long)hy.batch,
               (long long)hq.elements, (long long)hv.elements);
  memset(to, 0, sizeof(*to));
  to->queries = (int)hq.rows, to->keys = (int)hk.rows;
  to->size = (int)hq.elements, to->value_size = (int)hv.elements;
  to->inner = hy.batch_rank ? (int)hy.batch_dims[hy.batch_rank - 1] : 1;
  to->outer = (int)(hy.batch / carnot_max_i64(1, to->inner));
  to->scale = p->scale, to->zero_empty = p->zero_empty;
  CARNOT_TRY(set_strides(&hq, &hy, to->q_s));
  CARNOT_TRY(set_strides(&hk, &hy, to->k_s));
  CARNOT_TRY(set_strides(&hv, &hy, to->v_s));
  CARNOT_TRY(set_strides(&hy, &hy, to->y_s));
  if (p->mask >= 0) CARNOT_TRY(describe_mask(&inputs[p->mask], dtype, &hy, to));
  const int bytes = carnot_cuda_bytes(q);
  *out_at = (carnot_cuda_attention_offsets){hq.offset * bytes, hk.offset * bytes,
                                            hv.offset * bytes, hy.offset * carnot_cuda_bytes(y),
                                            hy.batch,          false};
  out_at->aligned = is_aligned(q, out_at->q, to->q_s, 16) &&
                    is_aligned(k, out_at->k, to->k_s, 16) &&
                    is_aligned(v, out_at->v, to->v_s, 16) &&
                    is_aligned(y, out_at->y, to->y_s, 8 * (unsigned)carnot_cuda_bytes(y));
  return NULL;
}

carnot_status* carnot_cuda_attention_describe(const carnot_attention_params* p, carnot_dtype dtype,
                                              const carnot_cuda_byte_result* result,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs,
                                              carnot_cuda_attention_params* to,
                                              carnot_cuda_attention_offsets* out_at) {
  const carnot_operand *q = &inputs[p->q.input], *k = &inputs[p->k.input], *v = &inputs[p->v.input];
  const carnot_dtype operand = q->format.dtype;
  CARNOT_CHECK(operand == dtype || operand == CARNOT_DTYPE_F8E4M3FN, INVALID_ARGUMENT,
               "queries are %s, must be %s", carnot_dtype_name(operand), carnot_dtype_name(dtype));
  CARNOT_CHECK(k->format.dtype == operand && v->format.dtype == operand, INVALID_ARGUMENT,
               "keys are %s and values %s, must be %s", carnot_dtype_name(k->format.dtype),
               carnot_dtype_name(v->format.dtype), carnot_dtype_name(operand));
  CARNOT_TRY(check_result(result, dtype, &outputs[0]));
  CARNOT_TRY(carnot_cuda_attention_describe_heads(p, dtype, inputs, outputs, to, out_at));
  CARNOT_CHECK(is_half(dtype) && to->size % 8 == 0 && to->value_size % 8 == 0, UNSUPPORTED,
               "heads of %d and %d elements", to->size, to->value_size);
  if (result) to->result = *result;
  return NULL;
}

carnot_status* carnot_cuda_attention_describe_problem(const carnot_problem* problem,
                                                      const carnot_cuda_attention_stored* stored,
                                                      carnot_cuda_attention_params* out,
                                                      carnot_cuda_attention_offsets* out_at) {
  carnot_attention_params p = stored->attention;
  const carnot_operand_desc* types[] = {&problem->inputs[p.q.input], &problem->inputs[p.k.input],
                                        &problem->inputs[p.v.input], &problem->outputs[0],
                                        &problem->inputs[p.mask >= 0 ? p.mask : p.q.input]};
  carnot_operand operands[5];
  for (int i = 0; i < 5; i++)
    operands[i] = carnot_cuda_operand_of(types[i], CARNOT_LAYOUT_ROW_MAJOR);
  p.q.input = 0, p.k.input = 1, p.v.input = 2;
  if (p.mask >= 0) p.mask = 4;
  return carnot_cuda_attention_describe(&p, (carnot_dtype)stored->dtype, &stored->result, operands,
                                        &operands[3], out, out_at);
}

static const carnot_cuda_kernel_id kMaskKinds[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, attention_mask_kinds)};
// The form that stores 16-bit floats, and the one that stores bytes.
#define FORMS(name)                                             \
  {                                                             \
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, name)}, {      \
      CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, name##_bytes) \
    }                                                           \
  }
typedef carnot_cuda_kernel_id kernel_forms[2][CARNOT_DTYPE_COUNT];
static const kernel_forms kSimt = FORMS(attention_simt), kWgmma = FORMS(attention_wgmma_64);
// By the elements of a head, at most: 64 and 128; 32, 64, 96 and 128.
static const kernel_forms kSplit[2] = {FORMS(attention_split_64), FORMS(attention_split_128)};
static const kernel_forms kTiled[4] = {FORMS(attention_tiled_32), FORMS(attention_tiled_64),
                                       FORMS(attention_tiled_96), FORMS(attention_tiled_128)};
#undef FORMS

carnot_status* carnot_cuda_attention_find_kinds(const carnot_step_view* step, carnot_dtype dtype,
                                                int64_t heads, carnot_cuda_attention_params* p,
                                                carnot_cuda_attention_kinds* out,
                                                size_t* out_workspace_bytes) {
  const long long matrix = (long long)p->queries * p->keys, *apart = p->mask_s;
  *out = (carnot_cuda_attention_kinds){.function = NULL};
  *out_workspace_bytes = 0;
  if (!apart[2] || !heads) return NULL;
  int64_t inner = apart[1] ? p->inner : 1, outer = apart[0] ? heads / p->inner : 1,
          tiles = carnot_ceildiv(p->queries, p->tile_rows);
  bool dense = apart[2] == p->keys && (!apart[1] || apart[1] == matrix) &&
               (!apart[0] || apart[0] == inner * matrix);
  if (!dense || heads < 4 * outer * inner || matrix * outer * inner < kMaskWorthKinds) return NULL;
  p->kinds_s[0] = apart[0] ? (int)inner : 0;
  p->kinds_s[1] = apart[1] != 0;
  out->grid[0] = tiles, out->grid[1] = outer * inner, out->grid[2] = 1;
  *out_workspace_bytes = (size_t)(tiles * outer * inner * carnot_ceildiv(p->keys, p->tile_keys));
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kMaskKinds, dtype, &out->function);
}

void carnot_cuda_attention_set_addresses(const carnot_attention_params* p,
                                         const carnot_cuda_attention_offsets* at,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs,
                                         carnot_cuda_attention_params* params) {
  params->q = (const char*)inputs[p->q.input].data + at->q;
  params->k = (const char*)inputs[p->k.input].data + at->k;
  params->v = (const char*)inputs[p->v.input].data + at->v;
  params->y = (char*)outputs[0].data + at->y;
  params->mask = p->mask >= 0 ? inputs[p->mask].data : NULL;
}

carnot_status* carnot_cuda_attention_bind(const carnot_step_view* step,
                                          const carnot_cuda_attention_offsets* at,
                                          const carnot_cuda_attention_kinds* kinds,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* workspace,
                                          carnot_cuda_attention_params* params) {
  carnot_cuda_attention_set_addresses(
      &((const carnot_cuda_attention_stored*)step->params)->attention, at, inputs, outputs, params);
  if (!kinds->function) return NULL;
  params->kinds = workspace;
  return carnot_cuda_launch(step, kinds->function, kinds->grid, 1024, params);
}

// Tiles of keys in shared memory, by warpgroups where 128 queries a block still keep the
// multiprocessors busy; for few queries the warps of a block share the keys.
static carnot_status* choose_kernel(const carnot_step_view* step, carnot_dtype dtype,
                                    attention_state* s, size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_attention_params* p = &s->params;
  const int64_t heads = s->grid[1], busy = cuda->base.multiprocessor_count,
                blocks = heads * carnot_ceildiv(p->queries, 64);
  int size = p->size > p->value_size ? p->size : p->value_size;
  int width = size <= 32 ? 32 : size <= 64 ? 64 : size <= 96 ? 96 : 128;
  const kernel_forms* kernels;
  s->threads = 128;
  p->tile_keys = width <= 64 ? 64 : 32;
  if (!s->at.aligned || cuda->major < 8 || p->scale < 0) {
    p->tile_rows = 4;
    kernels = &kSimt;
  } else if (p->queries <= 16 || (p->keys > 128 && blocks < busy / 6)) {
    int split = size <= 64 ? 64 : 128;
    p->tile_rows = 16;
    s->threads = 32 * (unsigned)carnot_min_i64(8, carnot_ceildiv(p->keys, 2048 / split));
    kernels = &kSplit[split / 64 - 1];
  } else if (width == 64 && cuda->major == 9 &&
             heads * carnot_ceildiv(p->queries, 128) >= 2 * busy) {
    p->tile_rows = 128;
    s->threads = 256;
    kernels = &kWgmma;
  } else {
    p->tile_rows = 64;
    kernels = &kTiled[width / 32 - 1];
  }
  s->grid[0] = carnot_ceildiv(p->queries, p->tile_rows);
  if (p->tile_rows >= 64)
    CARNOT_TRY(
        carnot_cuda_attention_find_kinds(step, dtype, heads, p, &s->kinds, out_workspace_bytes));
  return carnot_cuda_kernel_for(cuda, (*kernels)[p->result.type != CARNOT_CUDA_BYTE_NONE], dtype,
                                &s->function);
}

static carnot_status* attention_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  attention_state* s = state;
  *s = (attention_state){.grid = {1, 1, 1}};
  const carnot_cuda_attention_stored* stored = step->params;
  CARNOT_TRY(carnot_cuda_attention_describe(&stored->attention, (carnot_dtype)stored->dtype,
                                            &stored->result, inputs, outputs, &s->params, &s->at));
  s->grid[1] = s->at.heads;
  CARNOT_CHECK(s->at.heads <= 65535, UNSUPPORTED, "%lld heads", (long long)s->at.heads);
  return choose_kernel(step, (carnot_dtype)stored->dtype, s, out_workspace_bytes);
}

static carnot_status* attention_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)executor;
  attention_state* s = state;
  CARNOT_TRY(
      carnot_cuda_attention_bind(step, &s->at, &s->kinds, inputs, outputs, workspace, &s->params));
  return carnot_cuda_launch(step, s->function, s->grid, s->threads, &s->params);
}

const carnot_tactic carnot_cuda_attention = {.name = "cuda_attention",
                                             .anchor = CARNOT_OP_SOFTMAX,
                                             .numerics = CARNOT_NUMERICS_HALF,
                                             .device = true,
                                             .reject = attention_reject,
                                             .prepare = carnot_cuda_attention_prepare,
                                             .validate = carnot_cuda_attention_check,
                                             .uses_input = carnot_cuda_attention_reads,
                                             .configure = attention_shape,
                                             .run = attention_run};
