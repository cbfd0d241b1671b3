// Matrix products: MatMul with broadcast batches and Gemm, by cuBLASLt or the own kernel, and what
// follows in the region: bias, residual and relu in the library's epilogue, the rest as a generated
// program over the result. Halves multiply with float32 sums; float32 is float32 unless shortcuts
// were asked for.
#include <stdio.h>
#include <string.h>

#include "backend/cuda/blas.h"
#include "backend/cuda/rows.h"

typedef struct gemm_params {
  int32_t fast_fp32;
  uint32_t residual;  // input as large as the result that is added behind the bias; NONE
  carnot_cuda_blas_choice choice;
} gemm_params;

// What the region says; the same at build and when shapes are set.
typedef struct product {
  bool trans_a, trans_b;
  float alpha, beta;
  uint32_t c;      // input that is added: Gemm's third, or a bias of the region; NONE
  bool c_is_bias;  // one number a column, known by the region's form
  uint32_t residual;
  carnot_cuda_blas_activation activation;
  uint32_t acc;  // the local that stands in the output before the chain
  carnot_cuda_chain chain;
} product;

// The library's GELU is the form by tanh, at most 4.8e-4 from the exact one: less than what a half
// of magnitude 1 rounds away. Halves may have it for both.
static carnot_cuda_blas_activation activation_of(const carnot_plan_node* node, bool gelu) {
  if (carnot_cuda_is_fn(node, CARNOT_FN_RELU)) return CARNOT_CUDA_BLAS_RELU;
  bool is_gelu =
      carnot_cuda_is_fn(node, CARNOT_FN_GELU_ERF) || carnot_cuda_is_fn(node, CARNOT_FN_GELU_TANH);
  return gelu && is_gelu ? CARNOT_CUDA_BLAS_GELU : CARNOT_CUDA_BLAS_NONE;
}

// |is_column|: input i is one number a column of the result; |is_whole|: it has the result's
// dimensions and may be added by the library; |gelu|: so may be the function.
static const char* read_product(const carnot_region* region, uint32_t input_count,
                                const bool* is_column, const bool* is_whole, bool gelu,
                                product* out, char* reason, size_t size) {
  const carnot_plan_node* node = &region->nodes[0];
  if (node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM) return "";
  const carnot_op_row* row = carnot_op_get(node->op);
  *out = (product){
      .c = CARNOT_PLAN_NONE, .residual = CARNOT_PLAN_NONE, .acc = node->outputs[0], .beta = 1};
  out->trans_a = carnot_attr_int(row, &node->attrs, "transA") != 0;
  out->trans_b = carnot_attr_int(row, &node->attrs, "transB") != 0;
  out->alpha = (float)carnot_attr_float(row, &node->attrs, "alpha");
  if (node->inputs[0] >= input_count || node->inputs[1] >= input_count) return "no operands";
  if (node->op == CARNOT_OP_GEMM) {
    out->beta = (float)carnot_attr_float(row, &node->attrs, "beta");
    if (node->input_count > 2) out->c = node->inputs[2];
    if (out->c != CARNOT_PLAN_NONE && out->beta == 0) out->c = CARNOT_PLAN_NONE;
    if (out->c != CARNOT_PLAN_NONE && out->c >= input_count) return "no operands";
    out->c_is_bias = out->c != CARNOT_PLAN_NONE && out->beta == 1 && is_column[out->c];
  }
  uint32_t next = 1;
  bool inner = region->node_count > 1;
  if (inner && out->c == CARNOT_PLAN_NONE && carnot_cuda_is_fn(&region->nodes[1], CARNOT_FN_ADD)) {
    const carnot_plan_node* add = &region->nodes[1];
    uint32_t other = add->inputs[0] == out->acc ? add->inputs[1] : add->inputs[0];
    if (other < input_count && is_column[other]) {
      out->c = other, out->c_is_bias = true, next = 2;
      out->acc = add->outputs[0];
    }
  }
  bool plain = out->c == CARNOT_PLAN_NONE || out->c_is_bias;
  if (next < region->node_count && plain &&
      carnot_cuda_is_fn(&region->nodes[next], CARNOT_FN_ADD)) {
    const carnot_plan_node* add = &region->nodes[next];
    uint32_t other = add->inputs[0] == out->acc ? add->inputs[1] : add->inputs[0];
    if (other < input_count && is_whole[other]) {
      out->residual = other;
      out->acc = region->nodes[next++].outputs[0];
    }
  }
  if (next < region->node_count && plain)
    out->activation = activation_of(&region->nodes[next], gelu);
  if (out->activation) out->acc = region->nodes[next++].outputs[0];
  return carnot_cuda_chain_make(region, input_count, next, out->acc, &out->chain, reason, size);
}

// One number a column: all dimensions are 1 but the last, which is the result's.
static bool is_column(int rank, const int64_t* dims, int64_t columns) {
  for (int d = 0; d + 1 < rank; d++)
    if (dims[d] != 1) return false;
  return rank >= 1 && dims[rank - 1] == columns && columns > 1;
}

static const char* describe(const carnot_problem* problem, bool library, product* out, char* reason,
                            size_t size) {
  bool columns[64] = {false}, whole[64] = {false};
  const carnot_operand_type* y = &problem->outputs[0];
  for (uint32_t i = 0; i < problem->input_count && i < 64; i++) {
    const carnot_operand_type* t = &problem->inputs[i];
    if (t->is_constant && t->dtype == y->dtype && y->rank > 0)
      columns[i] = is_column(t->rank, t->dims, y->dims[y->rank - 1]);
    whole[i] = library && !t->is_constant && t->dtype == y->dtype && t->rank == y->rank;
    for (int d = 0; whole[i] && d < y->rank; d++)
      whole[i] = t->dims[d] == y->dims[d] && t->min[d] == y->min[d] && t->max[d] == y->max[d];
  }
  if (problem->input_count > 64) return "too many operands";
  bool gelu = library && carnot_cuda_is_half(y->dtype);
  return read_product(problem->region, problem->input_count, columns, whole, gelu, out, reason,
                      size);
}

static const char* gemm_reject(carnot_problem* problem, bool library, char* reason, size_t size) {
  product p;
  const char* why = describe(problem, library, &p, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  const carnot_operand_type *a = &problem->inputs[problem->region->nodes[0].inputs[0]],
                            *b = &problem->inputs[problem->region->nodes[0].inputs[1]];
  why = carnot_cuda_not_float(a, reason, size);
  if (why) return why;
  if (b->kind != CARNOT_VALUE_TENSOR || b->rank < 1 || a->rank < 1)
    return "an operand has no known rank";
  if (a->dtype != b->dtype) return "the operands have different types";
  return NULL;
}

static const char* gemm_own_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  return op == CARNOT_OP_MATMUL || op == CARNOT_OP_GEMM ? gemm_reject(problem, false, reason, size)
                                                        : "";
}

static const char* gemm_lt_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_MATMUL && op != CARNOT_OP_GEMM) return "";
  if (!carnot_cuda_has_blas(carnot_cuda_of(problem->device))) return "cuBLASLt was not found";
  return gemm_reject(problem, true, reason, size);
}

static carnot_status* gemm_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(gemm_params), INVALID_MODEL, "%u bytes of parameters",
               step->param_bytes);
  uint32_t residual = ((const gemm_params*)step->params)->residual;
  CARNOT_CHECK(residual == CARNOT_PLAN_NONE || residual < step->input_count, INVALID_MODEL,
               "the residual is input %u of %u", residual, step->input_count);
  return NULL;
}

// ---- shape ----

typedef struct gemm_state {
  carnot_cuda_blas_plan* plan;  // NULL: the own kernel
  CUfunction function;
  carnot_cuda_gemm own;
  bool adds_c;  // the output is filled with C first
  uint32_t c, residual;
  bool bias;
  float alpha, beta;
  int64_t outer_count, k;
  int outer_rank;
  int64_t outer_dims[5], outer_a[5], outer_b[5], outer_c[5];  // in bytes
  size_t y_bytes;
  carnot_cuda_move fill;
  uint32_t a_input, b_input;
  carnot_cuda_chain_state chain;
} gemm_state;
_Static_assert(sizeof(gemm_state) <= CARNOT_STATE_BYTES, "the state has its size");

typedef struct batches {
  int rank;
  int64_t dims[CARNOT_MAX_RANK], a[CARNOT_MAX_RANK], b[CARNOT_MAX_RANK], c[CARNOT_MAX_RANK];
} batches;

// The batch axes of the result with the distances of both operands, joined where they can be.
static carnot_status* read_batches(const carnot_operand* a, const carnot_operand* b,
                                   const carnot_operand* y, int drop_a, int drop_b, int drop_y,
                                   batches* out) {
  *out = (batches){.rank = 0};
  int rank = y->rank - drop_y;
  for (int d = 0; d < rank; d++) {
    int at_a = d - rank + a->rank - drop_a, at_b = d - rank + b->rank - drop_b;
    int64_t sa = at_a >= 0 && a->dims[at_a] > 1 ? a->strides[at_a] : 0;
    int64_t sb = at_b >= 0 && b->dims[at_b] > 1 ? b->strides[at_b] : 0;
    CARNOT_CHECK((at_a < 0 || a->dims[at_a] == 1 || a->dims[at_a] == y->dims[d]) &&
                     (at_b < 0 || b->dims[at_b] == 1 || b->dims[at_b] == y->dims[d]),
                 INVALID_ARGUMENT, "batches do not fit along axis %d", d);
    if (y->dims[d] == 1) continue;
    int r = out->rank;
    bool joins = r && out->a[r - 1] == sa * y->dims[d] && out->b[r - 1] == sb * y->dims[d] &&
                 out->c[r - 1] == y->strides[d] * y->dims[d];
    if (!joins) out->dims[out->rank++] = y->dims[d];
    if (joins) out->dims[r - 1] *= y->dims[d];
    r = out->rank - 1;
    out->a[r] = sa, out->b[r] = sb, out->c[r] = y->strides[d];
  }
  return NULL;
}

// Of the address and of distances in elements, up to 16 bytes.
static int alignment_of(const carnot_operand* t, const int64_t* distances, int count) {
  uintptr_t bits = (uintptr_t)t->data | 16;
  for (int i = 0; i < count; i++) bits |= (uintptr_t)(distances[i] * carnot_cuda_bytes(t));
  return (int)(bits & -bits);
}

typedef struct extents {
  int64_t m, n, k;
  int drop_a, drop_b, drop_y;  // axes that are no batches
} extents;

static carnot_status* read_extents(const product* p, const carnot_operand* a,
                                   const carnot_operand* b, const carnot_operand* y, extents* e) {
  e->drop_a = a->rank > 1 ? 2 : 1, e->drop_b = b->rank > 1 ? 2 : 1;
  e->drop_y = e->drop_a + e->drop_b - 2;
  bool ta = p->trans_a && a->rank > 1, tb = p->trans_b && b->rank > 1;
  e->m = a->rank > 1 ? a->dims[a->rank - (ta ? 1 : 2)] : 1;
  e->k = a->rank > 1 ? a->dims[a->rank - (ta ? 2 : 1)] : a->dims[0];
  e->n = b->rank > 1 ? b->dims[b->rank - (tb ? 2 : 1)] : 1;
  int64_t k = b->rank > 1 ? b->dims[b->rank - (tb ? 1 : 2)] : b->dims[0];
  CARNOT_CHECK(k == e->k && y->rank >= e->drop_y, INVALID_ARGUMENT,
               "a product over %lld and %lld elements", (long long)e->k, (long long)k);
  int64_t rows = 1;
  for (int i = 0; i < e->drop_y; i++) rows *= y->dims[y->rank - 1 - i];
  CARNOT_CHECK(rows == e->m * e->n, INVALID_ARGUMENT, "the result has another size");
  return NULL;
}

static carnot_status* fill_with_c(const carnot_step_view* step, const carnot_operand* c,
                                  const carnot_operand* y, gemm_state* s) {
  int64_t strides[CARNOT_MAX_RANK] = {0};
  CARNOT_CHECK(c->rank <= y->rank && c->dtype == y->dtype, INVALID_ARGUMENT, "C has rank %d",
               c->rank);
  for (int d = 0; d < c->rank; d++) {
    int at = d + y->rank - c->rank;
    CARNOT_CHECK(c->dims[d] == 1 || c->dims[d] == y->dims[at], INVALID_ARGUMENT,
                 "C does not broadcast to the result");
    if (c->dims[d] > 1) strides[at] = c->strides[d];
  }
  s->adds_c = true;
  return carnot_cuda_move_make(step, y->rank, y->dims, strides, 0, y->strides, 0,
                               carnot_cuda_bytes(y), &s->fill);
}

// The first |rank| batch axes are walked by one call each.
static void set_outer(const batches* t, int rank, int bytes, gemm_state* s) {
  for (int i = 0; i < rank; i++) {
    s->outer_dims[i] = t->dims[i];
    s->outer_a[i] = t->a[i] * bytes, s->outer_b[i] = t->b[i] * bytes;
    s->outer_c[i] = t->c[i] * bytes;
  }
  s->outer_rank = rank > 0 ? rank : 0;
  s->outer_count = carnot_dims_count(t->dims, s->outer_rank);
}

static carnot_status* set_own(const carnot_step_view* step, const extents* e, const product* p,
                              const batches* t, const carnot_operand* a, const carnot_operand* b,
                              gemm_state* s) {
  bool ta = p->trans_a && a->rank > 1, tb = p->trans_b && b->rank > 1;
  int last = t->rank - 1;
  bool batched = t->rank > 0;
  s->own = (carnot_cuda_gemm){.m = e->m,
                              .n = e->n,
                              .k = e->k,
                              .batch = batched ? t->dims[last] : 1,
                              .a_b = batched ? t->a[last] : 0,
                              .b_b = batched ? t->b[last] : 0,
                              .c_b = batched ? t->c[last] : 0,
                              .a_m = ta ? 1 : e->k,
                              .a_k = ta ? e->m : 1,
                              .b_k = tb ? 1 : e->n,
                              .b_n = tb ? e->k : 1,
                              .c_m = e->n,
                              .c_n = 1,
                              .alpha = p->alpha,
                              .beta = s->adds_c ? p->beta : 0,
                              .relu = p->activation == CARNOT_CUDA_BLAS_RELU};
  CARNOT_CHECK(t->rank <= 5, UNSUPPORTED, "batches over %d axes that do not join", t->rank);
  set_outer(t, last, carnot_cuda_bytes(a), s);
  char name[32];
  snprintf(name, sizeof(name), "gemm_%s", carnot_cuda_type(a->dtype));
  return carnot_cuda_kernel(carnot_cuda_of_step(step), name, &s->function);
}

// The library's description; |t| keeps the batches that are walked by one call each.
static carnot_status* make_key(const extents* e, const product* p, bool fast, batches* t,
                               const carnot_operand* a, const carnot_operand* b,
                               const carnot_operand* y, const carnot_operand* added,
                               carnot_cuda_blas* key) {
  bool ta = p->trans_a && a->rank > 1, tb = p->trans_b && b->rank > 1;
  memset(key, 0, sizeof(*key));
  key->m = e->m, key->n = e->n, key->k = e->k, key->batch = 1, key->type = (int32_t)a->dtype;
  key->trans_a = ta, key->trans_b = tb;
  key->a_ld = ta ? e->m : e->k, key->b_ld = tb ? e->k : e->n;
  // Batches that share B are more rows of A.
  int last = t->rank - 1;
  if (t->rank && !ta && t->b[last] == 0 && t->a[last] == e->m * e->k && t->c[last] == e->m * e->n) {
    key->m *= t->dims[last];
    t->rank--, last--;
  }
  if (t->rank) {
    key->batch = t->dims[last], key->a_batch = t->a[last], key->b_batch = t->b[last];
    key->c_batch = t->c[last];
    t->rank--;
  }
  CARNOT_CHECK(t->rank <= 4, UNSUPPORTED, "batches over %d axes that do not join", t->rank);
  key->bias = p->c_is_bias, key->activation = (int32_t)p->activation, key->fast = fast;
  key->beta = p->residual != CARNOT_PLAN_NONE || (p->c != CARNOT_PLAN_NONE && !p->c_is_bias);
  int64_t of_a[5] = {key->a_batch}, of_b[5] = {key->b_batch}, of_c[5] = {key->c_batch};
  for (int i = 0; i < t->rank; i++)
    of_a[i + 1] = t->a[i], of_b[i + 1] = t->b[i], of_c[i + 1] = t->c[i];
  const int all[] = {alignment_of(a, of_a, t->rank + 1), alignment_of(b, of_b, t->rank + 1),
                     alignment_of(y, of_c, t->rank + 1),
                     alignment_of(added ? added : y, of_c, t->rank + 1)};
  key->alignment = all[0];
  for (int i = 1; i < 4; i++) key->alignment = all[i] < key->alignment ? all[i] : key->alignment;
  return NULL;
}

static carnot_status* set_lt(const carnot_step_view* step, const extents* e, product* p, batches* t,
                             const carnot_operand* a, const carnot_operand* b,
                             const carnot_operand* y, const carnot_operand* added, gemm_state* s) {
  const gemm_params* params = step->params;
  carnot_cuda_blas key;
  CARNOT_TRY(make_key(e, p, params->fast_fp32, t, a, b, y, added, &key));
  set_outer(t, t->rank, carnot_cuda_bytes(a), s);
  return carnot_cuda_blas_find(carnot_cuda_of_step(step), &key, &params->choice, &s->plan);
}

static carnot_operand operand_of(const carnot_operand_type* t) {
  carnot_operand o = {.dtype = t->dtype, .rank = t->rank};
  memcpy(o.dims, t->dims, sizeof(o.dims));
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, t->rank, t->dims, o.strides);
  return o;
}

static bool is_known(const carnot_operand_type* t) {
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1) return false;
  return true;
}

// The fastest algorithm at the optimal sizes. What cannot be timed goes by the heuristic.
static carnot_status* time_algos(const carnot_problem* problem, const product* p,
                                 carnot_cuda_blas_choice* out) {
  const uint32_t* inputs = problem->region->nodes[0].inputs;
  const carnot_operand_type* types[] = {&problem->inputs[inputs[0]], &problem->inputs[inputs[1]],
                                        &problem->outputs[0]};
  for (int i = 0; i < 3; i++)
    if (!is_known(types[i])) return NULL;
  const carnot_operand a = operand_of(types[0]), b = operand_of(types[1]), y = operand_of(types[2]);
  extents e;
  batches t;
  carnot_cuda_blas key;
  CARNOT_TRY(read_extents(p, &a, &b, &y, &e));
  CARNOT_TRY(read_batches(&a, &b, &y, e.drop_a, e.drop_b, e.drop_y, &t));
  CARNOT_TRY(make_key(&e, p, problem->fast_fp32, &t, &a, &b, &y, NULL, &key));
  return carnot_cuda_blas_choose(problem, &key, out);
}

static void choose_algo(const carnot_problem* problem, const product* p,
                        carnot_cuda_blas_choice* out) {
  carnot_status* status = time_algos(problem, p, out);
  if (status) *out = (carnot_cuda_blas_choice){0};
  carnot_status_free(status);
}

static carnot_status* prepare(const carnot_problem* problem, bool library, carnot_prepared* out) {
  product p;
  char reason[256];
  const char* why = describe(problem, library, &p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(gemm_params), "parameters", &params));
  gemm_params* made = params;
  *made = (gemm_params){.fast_fp32 = problem->fast_fp32, .residual = p.residual};
  if (library && problem->times) choose_algo(problem, &p, &made->choice);
  out->params = params;
  out->param_bytes = sizeof(gemm_params);
  return carnot_cuda_chain_prepare(problem, &p.chain, problem->inputs[0].dtype, out);
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare(problem, false, out);
}
static carnot_status* gemm_lt_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare(problem, true, out);
}

// The library reads it in the result's layout.
static carnot_status* check_residual(const carnot_operand* t, const carnot_operand* y) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  CARNOT_CHECK(t->dtype == y->dtype && t->rank == y->rank, INVALID_ARGUMENT,
               "the residual is %s of rank %d", carnot_dtype_name(t->dtype), t->rank);
  for (int d = 0; d < y->rank; d++)
    CARNOT_CHECK(t->dims[d] == y->dims[d] && (t->strides[d] == y->strides[d] || y->dims[d] == 1),
                 INVALID_ARGUMENT, "dimension %d of the residual is %lld, the result's %lld", d,
                 (long long)t->dims[d], (long long)y->dims[d]);
  return NULL;
}

static carnot_status* shape_with(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, gemm_state* s, bool library,
                                 bool gelu, size_t* out_workspace_bytes) {
  const carnot_operand* y = &outputs[0];
  bool columns[64] = {false}, whole[64] = {false};
  CARNOT_CHECK(step->input_count <= 64, INVALID_MODEL, "%u operands", step->input_count);
  for (uint32_t i = 0; i < step->input_count; i++)
    if (y->rank > 0 && inputs[i].dtype == y->dtype)
      columns[i] = is_column(inputs[i].rank, inputs[i].dims, y->dims[y->rank - 1]);
  uint32_t residual = ((const gemm_params*)step->params)->residual;
  if (library && residual != CARNOT_PLAN_NONE) whole[residual] = true;
  product p;
  char reason[256];
  gelu = gelu && carnot_cuda_is_half(y->dtype);
  const char* why = read_product(step->region, step->input_count, columns, whole, gelu, &p, reason,
                                 sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  *s = (gemm_state){.alpha = p.alpha,
                    .beta = p.residual == CARNOT_PLAN_NONE ? p.beta : 1,
                    .c = p.c,
                    .residual = p.residual,
                    .outer_count = 1};
  if (p.residual != CARNOT_PLAN_NONE) CARNOT_TRY(check_residual(&inputs[p.residual], y));
  s->a_input = step->region->nodes[0].inputs[0], s->b_input = step->region->nodes[0].inputs[1];
  const carnot_operand *a = &inputs[s->a_input], *b = &inputs[s->b_input];
  const carnot_operand used[] = {*a, *b, *y};
  CARNOT_TRY(carnot_cuda_on_device(used, 3));
  CARNOT_CHECK(carnot_cuda_is_float(a->dtype) && a->dtype == b->dtype && a->dtype == y->dtype &&
                   a->rank > 0 && b->rank > 0,
               INVALID_ARGUMENT, "operands of %s and %s", carnot_dtype_name(a->dtype),
               carnot_dtype_name(b->dtype));
  if (p.c != CARNOT_PLAN_NONE) CARNOT_TRY(carnot_cuda_on_device(&inputs[p.c], 1));
  extents e;
  CARNOT_TRY(read_extents(&p, a, b, y, &e));
  s->k = e.k;
  s->y_bytes = (size_t)(carnot_dims_count(y->dims, y->rank) * carnot_cuda_bytes(y));
  bool own = p.residual == CARNOT_PLAN_NONE && p.activation != CARNOT_CUDA_BLAS_GELU;
  CARNOT_CHECK(own || e.k > 0, UNSUPPORTED, "a product over no elements with an epilogue");
  s->bias = p.c_is_bias && library && e.k > 0;
  if (p.c != CARNOT_PLAN_NONE && !s->bias) CARNOT_TRY(fill_with_c(step, &inputs[p.c], y, s));
  batches t;
  CARNOT_TRY(read_batches(a, b, y, e.drop_a, e.drop_b, e.drop_y, &t));
  if (library && e.k > 0)
    CARNOT_TRY(set_lt(step, &e, &p, &t, a, b, y,
                      p.residual == CARNOT_PLAN_NONE ? NULL : &inputs[p.residual], s));
  else
    CARNOT_TRY(set_own(step, &e, &p, &t, a, b, s));
  *out_workspace_bytes = s->plan ? carnot_cuda_blas_workspace(s->plan) : 0;
  return carnot_cuda_chain_shape(step, &p.chain, inputs, outputs, &s->chain);
}

static carnot_status* gemm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  return shape_with(step, inputs, outputs, state, false, false, out_workspace_bytes);
}
static carnot_status* gemm_lt_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  CARNOT_CHECK(
      carnot_cuda_has_blas(carnot_cuda_of_step(step)), NOT_FOUND,
      "this step needs cuBLASLt (libcublasLt.so.13 or .12), which was not found; without it "
      "engines are built with own kernels");
  carnot_status* status = shape_with(step, inputs, outputs, state, true, true, out_workspace_bytes);
  if (carnot_status_code(status) != CARNOT_UNSUPPORTED) return status;
  // Without an algorithm that ends in GELU, a program follows: not the one that the step brings.
  carnot_status_free(status);
  carnot_step_view plain = *step;
  plain.constant_count = 0;
  return shape_with(&plain, inputs, outputs, state, true, false, out_workspace_bytes);
}

// ---- run ----

static carnot_status* multiply(const carnot_step_view* step, gemm_state* s, const char* a,
                               const char* b, const char* c, char* y, const void* bias,
                               void* workspace) {
  if (!s->plan) {
    carnot_cuda_gemm own = s->own;
    own.a = a, own.b = b, own.c = y;
    const int64_t grid[3] = {carnot_ceildiv(own.n, 32), carnot_ceildiv(own.m, 32), own.batch};
    return carnot_cuda_launch(step, s->function, grid, 256, &own);
  }
  CARNOT_TRY(carnot_cuda_before_library(step));
  const carnot_cuda_blas_operands operands = {.a = a,
                                              .b = b,
                                              .c = c,
                                              .bias = bias,
                                              .y = y,
                                              .workspace = workspace,
                                              .alpha = s->alpha,
                                              .beta = s->beta};
  return carnot_cuda_blas_run(carnot_cuda_of_step(step), s->plan, &operands,
                              carnot_cuda_queue_of(step)->stream);
}

static carnot_status* gemm_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)executor;
  gemm_state* s = state;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_operand* y = &outputs[0];
  if (s->adds_c) CARNOT_TRY(carnot_cuda_move_run(step, &s->fill, inputs[s->c].data, y->data));
  if (!s->k && !s->adds_c)
    CARNOT_CUDA_TRY(cuda, cuMemsetD8Async(carnot_cuda_address(y->data), 0, s->y_bytes,
                                          carnot_cuda_queue_of(step)->stream));
  for (int64_t i = 0; s->k && i < s->outer_count; i++) {
    int64_t at = i, a = 0, b = 0, c = 0;
    for (int d = s->outer_rank - 1; d >= 0; d--) {
      int64_t here = at % s->outer_dims[d];
      at /= s->outer_dims[d];
      a += here * s->outer_a[d], b += here * s->outer_b[d], c += here * s->outer_c[d];
    }
    char* to = (char*)y->data + c;
    const char* added = s->residual != CARNOT_PLAN_NONE ? (const char*)inputs[s->residual].data + c
                        : s->adds_c                     ? to
                                                        : NULL;
    CARNOT_TRY(multiply(step, s, (const char*)inputs[s->a_input].data + a,
                        (const char*)inputs[s->b_input].data + b, added, to,
                        s->bias ? inputs[s->c].data : NULL, workspace));
  }
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

static void gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_type *a = &problem->inputs[problem->region->nodes[0].inputs[0]],
                            *y = &problem->outputs[0];
  bool trans = carnot_attr_int(carnot_op_get(problem->region->nodes[0].op),
                               &problem->region->nodes[0].attrs, "transA") != 0;
  double k = a->rank ? (double)a->dims[a->rank - (trans && a->rank > 1 ? 2 : 1)] : 1;
  *out_flops = 2 * k * (double)carnot_dims_count(y->dims, y->rank);
  *out_bytes = 0;
  for (uint32_t i = 0; i < problem->input_count; i++)
    *out_bytes += (double)carnot_dims_count(problem->inputs[i].dims,
                                            carnot_max_i64(0, problem->inputs[i].rank)) *
                  carnot_dtype_bits(problem->inputs[i].dtype) / 8;
  *out_bytes += (double)carnot_dims_count(y->dims, y->rank) * carnot_dtype_bits(y->dtype) / 8;
}

#define GEMM_ROW(variable, text, stands_by, reject_fn, prepare_fn, shape_fn)   \
  const carnot_tactic_row carnot_cuda_##variable = {.name = text,              \
                                                    .anchor = CARNOT_OP_COUNT, \
                                                    .numerics = "exact",       \
                                                    .device = true,            \
                                                    .last_resort = stands_by,  \
                                                    .reject = reject_fn,       \
                                                    .prepare = prepare_fn,     \
                                                    .check = gemm_check,       \
                                                    .shape = shape_fn,         \
                                                    .run = gemm_run,           \
                                                    .work = gemm_work};
GEMM_ROW(gemm_lt, "cuda_gemm_cublaslt", false, gemm_lt_reject, gemm_lt_prepare, gemm_lt_shape)
GEMM_ROW(gemm_row, "cuda_gemm_32x32", true, gemm_own_reject, gemm_prepare, gemm_shape)
