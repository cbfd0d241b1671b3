// Attention regions: heads read and written where they stand, by strides.
#include "backend/cpu/cpu.h"
#include "backend/cpu/rows.h"

// One of q, k, v: axis d of the view is axis perm[d] of the input. The last two are the row and the
// element of a head, those before it are batches, counted in their order.
typedef struct attention_view {
  int32_t input, rank;
  int32_t perm[CARNOT_MAX_RANK];
} attention_view;

typedef struct attention_params {
  attention_view q, k, v;
  attention_view out;  // axis d of the result is axis perm[d] of the output
  int32_t mask;        // input, -1: none
  float scale;
  int32_t zero_empty;
} attention_params;

typedef struct reader {
  const carnot_problem* problem;
  char* reason;
  size_t size;
  float scale;
} reader;

static const carnot_plan_node* producer_of(const carnot_problem* p, uint32_t local) {
  for (uint32_t n = 0; n < p->region->node_count; n++)
    for (uint32_t i = 0; i < p->region->nodes[n].output_count; i++)
      if (p->region->nodes[n].outputs[i] == local) return &p->region->nodes[n];
  return NULL;
}

static const carnot_operand_type* type_of(const carnot_problem* p, uint32_t local) {
  return local < p->input_count ? &p->inputs[local] : &p->inner[local - p->input_count];
}

static carnot_fn fn_of(const carnot_plan_node* node) {
  if (!node || (node->op != CARNOT_OP_UNARY && node->op != CARNOT_OP_BINARY &&
                node->op != CARNOT_OP_TERNARY))
    return CARNOT_FN_COUNT;
  return (carnot_fn)carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn");
}

static bool scalar_of(const carnot_problem* p, uint32_t local, float* out) {
  const carnot_operand_type* t = local < p->input_count ? &p->inputs[local] : NULL;
  if (!t || !carnot_is_f32_constant(t) || carnot_tensor_count(t->tensor) != 1) return false;
  *out = *(const float*)t->tensor->data;
  return true;
}

// Behind a scale by a constant: the other operand, and the factor taken into |scale|.
static bool take_scale(reader* r, const carnot_plan_node* node, uint32_t* local) {
  carnot_fn fn = fn_of(node);
  float factor;
  if (fn != CARNOT_FN_MUL && fn != CARNOT_FN_DIV) return false;
  int at = scalar_of(r->problem, node->inputs[1], &factor)                          ? 0
           : fn == CARNOT_FN_MUL && scalar_of(r->problem, node->inputs[0], &factor) ? 1
                                                                                    : -1;
  if (at < 0) return false;
  r->scale = fn == CARNOT_FN_MUL ? r->scale * factor : r->scale / factor;
  *local = node->inputs[at];
  return true;
}

static int source_axis(const carnot_plan_node* node, int rank, int axis) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  return perm && count == (size_t)rank ? (int)perm[axis] : rank - 1 - axis;
}

// From an operand of a product back to an input of the step. |swapped|: the head's elements run
// along its last axis but one.
static const char* read_view(reader* r, uint32_t local, bool swapped, attention_view* out) {
  const carnot_plan_node* node;
  const carnot_plan_node* permuted = NULL;
  while ((node = producer_of(r->problem, local)) != NULL) {
    if (permuted) return "an operand is permuted twice";
    if (take_scale(r, node, &local)) continue;
    if (node->op == CARNOT_OP_TRANSPOSE) {
      int rank = type_of(r->problem, node->inputs[0])->rank;
      bool swaps = rank >= 2;
      for (int d = 0; d + 2 < rank; d++) swaps = swaps && source_axis(node, rank, d) == d;
      if (!swaps)
        permuted = node;
      else
        swapped ^= source_axis(node, rank, rank - 1) != rank - 1;
    } else if (node->op != CARNOT_OP_RESHAPE && node->op != CARNOT_OP_SQUEEZE &&
               node->op != CARNOT_OP_UNSQUEEZE) {
      return carnot_because(r->reason, r->size, "%s before a product",
                            carnot_op_get(node->op)->name);
    }
    local = node->inputs[0];
  }
  if (local >= r->problem->input_count) return "an operand is no input";
  const carnot_operand_type* t = &r->problem->inputs[local];
  const char* why = carnot_not_f32(t, "an operand", 2, CARNOT_MAX_RANK, r->reason, r->size);
  if (why) return why;
  *out = (attention_view){.input = (int32_t)local, .rank = t->rank};
  for (int d = 0; d < t->rank; d++) {
    int axis = swapped && d >= t->rank - 2 ? 2 * t->rank - 3 - d : d;
    out->perm[d] = permuted ? source_axis(permuted, t->rank, axis) : axis;
  }
  return out->perm[t->rank - 1] == t->rank - 1 ? NULL : "the elements of a head are apart";
}

static bool is_product(const carnot_plan_node* node) {
  return node && node->op == CARNOT_OP_MATMUL;
}

static bool is_transposed(const carnot_plan_node* product) {
  return carnot_attr_int(carnot_op_get(product->op), &product->attrs, "transB") != 0;
}

// The weights' producer, behind a guard against rows without a key.
static const carnot_plan_node* read_guard(const carnot_problem* p, const carnot_plan_node* node,
                                          int32_t* zero_empty) {
  float zero;
  if (fn_of(node) != CARNOT_FN_SELECT) return node;
  const carnot_plan_node* test = producer_of(p, node->inputs[0]);
  if (fn_of(test) != CARNOT_FN_IS_NAN || test->inputs[0] != node->inputs[2] ||
      !scalar_of(p, node->inputs[1], &zero) || zero != 0)
    return NULL;
  *zero_empty = 1;
  return producer_of(p, node->inputs[2]);
}

static const char* read_scores(reader* r, const carnot_plan_node* softmax, attention_params* out) {
  const carnot_problem* p = r->problem;
  uint32_t local = softmax->inputs[0];
  int rank = type_of(p, local)->rank;
  int64_t axis = carnot_attr_int(carnot_op_get(softmax->op), &softmax->attrs, "axis");
  if (rank < 3 || (axis != -1 && axis != rank - 1)) return "the softmax is not along the last axis";
  const carnot_plan_node* node = producer_of(p, local);
  out->mask = -1;
  if (fn_of(node) == CARNOT_FN_ADD) {
    int at = node->inputs[1] < p->input_count ? 1 : 0;
    if (node->inputs[at] >= p->input_count) return "the mask is no input";
    const char* why =
        carnot_not_f32(&p->inputs[node->inputs[at]], "the mask", 1, rank, r->reason, r->size);
    if (why) return why;
    out->mask = (int32_t)node->inputs[at];
    node = producer_of(p, node->inputs[1 - at]);
  }
  if (node && take_scale(r, node, &local)) node = producer_of(p, local);
  if (!is_product(node)) return "no product of queries and keys";
  const char* why = read_view(r, node->inputs[0], false, &out->q);
  return why ? why : read_view(r, node->inputs[1], !is_transposed(node), &out->k);
}

static const char* describe(const carnot_problem* problem, attention_params* out, char* reason,
                            size_t size) {
  const carnot_region* region = problem->region;
  *out = (attention_params){.scale = 1};
  reader r = {problem, reason, size, 1};
  if (region->output_count != 1) return "an inner value is read outside the region";
  const carnot_plan_node* node = producer_of(problem, region->outputs[0]);
  out->out.rank = problem->outputs[0].rank;
  for (int d = 0; d < out->out.rank; d++) out->out.perm[d] = d;
  if (node && node->op == CARNOT_OP_TRANSPOSE) {
    for (int d = 0; d < out->out.rank; d++) out->out.perm[source_axis(node, out->out.rank, d)] = d;
    node = producer_of(problem, node->inputs[0]);
  }
  if (!is_product(node) || is_transposed(node) || out->out.rank < 3 ||
      out->out.perm[out->out.rank - 1] != out->out.rank - 1)
    return "no product of weights and values";
  const char* why = read_view(&r, node->inputs[1], false, &out->v);
  if (why) return why;
  if (r.scale != 1) return "the values are scaled";
  const carnot_plan_node* softmax =
      read_guard(problem, producer_of(problem, node->inputs[0]), &out->zero_empty);
  if (!softmax || softmax->op != CARNOT_OP_SOFTMAX) return "no softmax";
  why = read_scores(&r, softmax, out);
  out->scale = r.scale;
  return why;
}

static const char* attention_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  attention_params p;
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* attention_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(attention_params), "parameters", &params));
  char reason[256];
  const char* why = describe(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(attention_params);
  return NULL;
}

static carnot_status* check_view(const attention_view* view, uint32_t input_count, int least_rank) {
  CARNOT_CHECK(view->input >= 0 && (uint32_t)view->input < input_count &&
                   view->rank >= least_rank && view->rank <= CARNOT_MAX_RANK,
               INVALID_MODEL, "input %d of %u, rank %d", view->input, input_count, view->rank);
  uint32_t seen = 0;
  for (int d = 0; d < view->rank; d++) {
    CARNOT_CHECK(view->perm[d] >= 0 && view->perm[d] < view->rank && !(seen >> view->perm[d] & 1),
                 INVALID_MODEL, "axis %d is axis %d of %d", d, view->perm[d], view->rank);
    seen |= 1u << view->perm[d];
  }
  return NULL;
}

static carnot_status* attention_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(attention_params) && step->output_count == 1,
               INVALID_MODEL, "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(attention_params));
  const attention_params* p = step->params;
  CARNOT_TRY(check_view(&p->q, step->input_count, 2));
  CARNOT_TRY(check_view(&p->k, step->input_count, 2));
  CARNOT_TRY(check_view(&p->v, step->input_count, 2));
  CARNOT_TRY(check_view(&p->out, 1, 3));
  CARNOT_CHECK(p->mask >= -1 && p->mask < (int64_t)step->input_count, INVALID_MODEL,
               "mask %d of %u inputs", p->mask, step->input_count);
  return NULL;
}

// A view with its sizes: matrices of [rows, elements], |ld| apart, at every batch.
typedef struct heads {
  int32_t batch_rank;
  int64_t batch_dims[CARNOT_MAX_RANK - 2], batch_strides[CARNOT_MAX_RANK - 2];
  int64_t batch, rows, elements, ld;
} heads;

typedef struct attention_state {
  heads q, k, v, out;
  int64_t mask_strides[CARNOT_MAX_RANK - 2], mask_ld;
  int64_t rows_per_part, parts_per_head;
} attention_state;

static carnot_status* make_heads(const attention_view* view, const carnot_operand* t, heads* out) {
  CARNOT_CHECK(t->dtype == CARNOT_DTYPE_F32 && t->rank == view->rank, INVALID_ARGUMENT,
               "an operand of attention is %s of rank %d, must be float32 of rank %d",
               carnot_dtype_name(t->dtype), t->rank, view->rank);
  int last = view->perm[view->rank - 1], row = view->perm[view->rank - 2];
  CARNOT_CHECK(t->dims[last] <= 1 || t->strides[last] == 1, INVALID_ARGUMENT,
               "the elements of a head are apart");
  *out = (heads){.batch_rank = view->rank - 2,
                 .batch = 1,
                 .rows = t->dims[row],
                 .elements = t->dims[last],
                 .ld = t->strides[row]};
  for (int d = 0; d < out->batch_rank; d++) {
    out->batch_dims[d] = t->dims[view->perm[d]];
    out->batch_strides[d] = t->strides[view->perm[d]];
    out->batch *= out->batch_dims[d];
  }
  return NULL;
}

static carnot_status* make_mask(const carnot_operand* mask, attention_state* s) {
  int rank = s->out.batch_rank + 2;
  CARNOT_CHECK(mask->dtype == CARNOT_DTYPE_F32 && mask->rank >= 1 && mask->rank <= rank &&
                   mask->dims[mask->rank - 1] == s->k.rows &&
                   (s->k.rows <= 1 || mask->strides[mask->rank - 1] == 1),
               INVALID_ARGUMENT, "the mask is not one float32 number for each of %lld keys",
               (long long)s->k.rows);
  for (int d = 0; d < rank - 1; d++) {
    int at = d - (rank - mask->rank);
    int64_t dim = at < 0 ? 1 : mask->dims[at],
            full = d == rank - 2 ? s->q.rows : s->out.batch_dims[d];
    CARNOT_CHECK(dim == 1 || dim == full, INVALID_ARGUMENT,
                 "dimension %d of the mask is %lld, must be 1 or %lld", at, (long long)dim,
                 (long long)full);
    int64_t stride = dim == 1 ? 0 : mask->strides[at];
    if (d == rank - 2)
      s->mask_ld = stride;
    else
      s->mask_strides[d] = stride;
  }
  return NULL;
}

static carnot_status* attention_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  const attention_params* p = step->params;
  attention_state* s = memory;
  *s = (attention_state){0};
  CARNOT_TRY(make_heads(&p->q, &inputs[p->q.input], &s->q));
  CARNOT_TRY(make_heads(&p->k, &inputs[p->k.input], &s->k));
  CARNOT_TRY(make_heads(&p->v, &inputs[p->v.input], &s->v));
  CARNOT_TRY(make_heads(&p->out, &outputs[0], &s->out));
  CARNOT_CHECK(
      s->q.batch == s->out.batch && s->k.batch == s->out.batch && s->v.batch == s->out.batch &&
          s->q.rows == s->out.rows && s->k.rows == s->v.rows && s->q.elements == s->k.elements &&
          s->v.elements == s->out.elements,
      INVALID_ARGUMENT,
      "attention of %lld heads of [%lld,%lld] over %lld of [%lld,%lld] and %lld of [%lld,%lld]",
      (long long)s->q.batch, (long long)s->q.rows, (long long)s->q.elements, (long long)s->k.batch,
      (long long)s->k.rows, (long long)s->k.elements, (long long)s->v.batch, (long long)s->v.rows,
      (long long)s->v.elements);
  if (p->mask >= 0) CARNOT_TRY(make_mask(&inputs[p->mask], s));
  // A part packs its keys and values again, so heads are cut only where they are few.
  int64_t tiles = carnot_ceildiv(s->q.rows, CARNOT_ATTENTION_ROWS),
          cuts = carnot_min_i64(tiles, carnot_ceildiv(8, carnot_max_i64(1, s->q.batch)));
  s->rows_per_part = carnot_ceildiv(tiles, carnot_max_i64(1, cuts)) * CARNOT_ATTENTION_ROWS;
  s->parts_per_head = carnot_ceildiv(s->q.rows, s->rows_per_part);
  *out_workspace_bytes =
      (size_t)(carnot_attention_f32_workspace(s->q.elements, s->v.elements, s->rows_per_part) *
               s->parts_per_head * s->q.batch) *
      sizeof(float);
  return NULL;
}

typedef struct attention_run {
  carnot_attention_f32_fn* attention;
  const attention_params* params;
  const attention_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} attention_run;

static int64_t batch_offset(const heads* h, const int64_t* strides, int64_t batch) {
  int64_t offset = 0;
  for (int d = h->batch_rank - 1; d >= 0; d--) {
    offset += batch % h->batch_dims[d] * strides[d];
    batch /= h->batch_dims[d];
  }
  return offset;
}

static float* head_at(const heads* h, const carnot_operand* t, int64_t batch) {
  return (float*)t->data + batch_offset(h, h->batch_strides, batch);
}

static void attention_part(void* argument, int64_t part) {
  const attention_run* run = argument;
  const attention_state* s = run->state;
  const attention_params* p = run->params;
  int64_t head = part / s->parts_per_head, first = part % s->parts_per_head * s->rows_per_part;
  carnot_attention_f32 attention = {.q_len = s->q.rows,
                                    .kv_len = s->k.rows,
                                    .d = s->q.elements,
                                    .dv = s->v.elements,
                                    .q_ld = s->q.ld,
                                    .k_ld = s->k.ld,
                                    .v_ld = s->v.ld,
                                    .dst_ld = s->out.ld,
                                    .scale = p->scale,
                                    .zero_empty = p->zero_empty != 0,
                                    .mask_ld = s->mask_ld};
  attention.q = head_at(&s->q, &run->inputs[p->q.input], head);
  attention.k = head_at(&s->k, &run->inputs[p->k.input], head);
  attention.v = head_at(&s->v, &run->inputs[p->v.input], head);
  attention.dst = head_at(&s->out, &run->outputs[0], head);
  if (p->mask >= 0)
    attention.mask =
        (const float*)run->inputs[p->mask].data + batch_offset(&s->out, s->mask_strides, head);
  attention.workspace = run->workspace + part * carnot_attention_f32_workspace(
                                                    s->q.elements, s->v.elements, s->rows_per_part);
  run->attention(&attention, first, carnot_min_i64(first + s->rows_per_part, s->q.rows));
}

static carnot_status* attention_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(step->isa);
  bool half = step->isa >= CARNOT_ISA_AVX512_BF16;  // the rows of these levels are those in bf16
  attention_run run = {half ? kernels->attention_bf16 : kernels->attention_f32,
                       step->params,
                       state,
                       inputs,
                       outputs,
                       workspace};
  carnot_executor_parallel(executor, run.state->q.batch * run.state->parts_per_head, attention_part,
                           &run);
  return NULL;
}

static void attention_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  char reason[256];
  attention_params p;
  *out_flops = *out_bytes = 0;
  if (describe(problem, &p, reason, sizeof(reason))) return;
  const carnot_operand_type *q = &problem->inputs[p.q.input], *k = &problem->inputs[p.k.input],
                            *v = &problem->inputs[p.v.input];
  double keys = (double)k->dims[p.k.perm[p.k.rank - 2]];
  double in = (double)carnot_dims_count(q->dims, q->rank),
         out = (double)carnot_dims_count(problem->outputs[0].dims, problem->outputs[0].rank);
  *out_flops = 2 * keys * (in + out);
  *out_bytes = 4 * (in + out + (double)carnot_dims_count(k->dims, k->rank) +
                    (double)carnot_dims_count(v->dims, v->rank));
}

#define ATTENTION_ROW                                                                    \
  .anchor = CARNOT_OP_SOFTMAX, .reject = attention_reject, .prepare = attention_prepare, \
  .check = attention_check, .shape = attention_shape, .run = attention_run_all,          \
  .work = attention_work
CARNOT_CPU_ROWS(attention_f32, ATTENTION_ROW);
CARNOT_CPU_NATIVE_BF16_ROWS(attention_bf16, ATTENTION_ROW);
