// Matrix multiplication.
//   matmul: y[..,i,j] = alpha * sum_k a[..,i,k] * b[..,k,j]    shapes as numpy.matmul, batches
//   broadcast;
//           transA, transB swap the last two dimensions of an operand first
//   gemm:   y[i,j] = alpha * sum_k a'[i,k] * b'[k,j] + beta * c[i,j]    a', b' transposed by
//   transA, transB;
//           c broadcasts to y, may be absent
// Types up to 32 bits accumulate in f32, of F64 in f64, of integers in 64 bits, wrapped
// on store.
#include "ops/matmul.h"

// ---- shapes ----

carnot_status* carnot_matmul_infer(carnot_infer* infer, int a, int b, bool swap_a, bool swap_b,
                                   carnot_dtype dtype) {
  const carnot_type *x, *y;
  CARNOT_TRY(carnot_infer_tensor(infer, a, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, b, &y));
  if (x->rank < 0 || y->rank < 0) {
    carnot_infer_set(infer, 0, dtype, -1, NULL);
    return NULL;
  }
  CARNOT_CHECK(x->rank > 0 && y->rank > 0, INVALID_MODEL,
               "operands have rank %d and %d; at least 1 is required", x->rank, y->rank);
  carnot_type batch = *x, other = *y;
  batch.rank = x->rank > 2 ? x->rank - 2 : 0;
  other.rank = y->rank > 2 ? y->rank - 2 : 0;
  CARNOT_TRY(carnot_infer_broadcast(infer, &batch, &other));
  bool row = x->rank > 1, column = y->rank > 1;
  carnot_sym m = x->dims[row ? x->rank - 2 : 0], ka = x->dims[x->rank - 1];
  carnot_sym kb = y->dims[column ? y->rank - 2 : 0], n = y->dims[y->rank - 1], k;
  if (row && swap_a) m = x->dims[x->rank - 1], ka = x->dims[x->rank - 2];
  if (column && swap_b) n = y->dims[y->rank - 2], kb = y->dims[y->rank - 1];
  CARNOT_TRY(carnot_infer_merge(infer, ka, kb, "inner dimensions", &k));
  CARNOT_CHECK(batch.rank + row + column <= CARNOT_MAX_RANK, OUT_OF_RANGE,
               "the result has rank %d; at most %d is possible", batch.rank + row + column,
               CARNOT_MAX_RANK);
  if (row) batch.dims[batch.rank++] = m;
  if (column) batch.dims[batch.rank++] = n;
  carnot_infer_set(infer, 0, dtype, batch.rank, batch.dims);
  return NULL;
}

carnot_status* carnot_matmul_plan(const carnot_call* call, const carnot_tensor* a,
                                  const carnot_tensor* b, bool swap_a, bool swap_b,
                                  carnot_matmul* out) {
  carnot_gemm* g = &out->gemm;
  memset(out, 0, sizeof(*out));
  const int64_t *ad = a->dims + a->rank - 2, *bd = b->dims + b->rank - 2;
  g->m = a->rank > 1 ? ad[0] : 1;
  g->k = a->dims[a->rank - 1];
  g->a_row = g->k;
  g->a_col = 1;
  if (a->rank > 1 && swap_a) g->m = ad[1], g->k = ad[0], g->a_row = 1, g->a_col = ad[1];
  g->n = b->rank > 1 ? bd[1] : 1;
  g->b_row = b->rank > 1 ? bd[1] : 1;
  g->b_col = 1;
  int64_t kb = b->rank > 1 ? bd[0] : b->dims[0];
  if (b->rank > 1 && swap_b) g->n = bd[0], kb = bd[1], g->b_row = 1, g->b_col = bd[1];
  CARNOT_CHECK(g->k == kb, INVALID_MODEL, "inner dimensions are %lld and %lld; both must be equal",
               (long long)g->k, (long long)kb);
  g->c_row = g->n;
  carnot_tensor x = *a, y = *b;
  x.rank = a->rank > 2 ? a->rank - 2 : 0;
  y.rank = b->rank > 2 ? b->rank - 2 : 0;
  int rank = x.rank > y.rank ? x.rank : y.rank;
  int64_t dims[CARNOT_MAX_RANK], a_strides[CARNOT_MAX_RANK], b_strides[CARNOT_MAX_RANK];
  carnot_broadcast_strides(&x, rank, a_strides);
  carnot_broadcast_strides(&y, rank, b_strides);
  for (int i = 0; i < rank; i++) {
    int64_t dx = i < rank - x.rank ? 1 : x.dims[i - (rank - x.rank)];
    int64_t dy = i < rank - y.rank ? 1 : y.dims[i - (rank - y.rank)];
    dims[i] = dx == 1 ? dy : dx;
  }
  out->batch = carnot_dims_count(dims, rank);
  CARNOT_TRY(carnot_call_array(call, out->batch, sizeof(int64_t), &out->a_at));
  CARNOT_TRY(carnot_call_array(call, out->batch, sizeof(int64_t), &out->b_at));
  for (int64_t i = 0; i < out->batch; i++) {
    out->a_at[i] = carnot_offset(i, dims, a_strides, rank) * g->m * g->k;
    out->b_at[i] = carnot_offset(i, dims, b_strides, rank) * g->k * g->n;
  }
  return NULL;
}

// ---- running a batch ----

typedef struct batch_run {
  const carnot_matmul* matmul;
  carnot_gemm_type type;
  int64_t parts;  // of one matrix
} batch_run;

static void run_part(void* arg, int64_t part) {
  const batch_run* run = arg;
  int64_t i = part / run->parts,
          size = run->type == CARNOT_GEMM_F32 || run->type == CARNOT_GEMM_U32 ? 4 : 8;
  carnot_gemm g = run->matmul->gemm;
  g.a = (const char*)g.a + run->matmul->a_at[i] * size;
  g.b = (const char*)g.b + run->matmul->b_at[i] * size;
  g.c = (char*)g.c + i * g.m * g.n * size;
  switch (run->type) {
    case CARNOT_GEMM_F32: carnot_gemm_part_f32(&g, part % run->parts); break;
    case CARNOT_GEMM_F64: carnot_gemm_part_f64(&g, part % run->parts); break;
    case CARNOT_GEMM_U32: carnot_gemm_part_u32(&g, part % run->parts); break;
    case CARNOT_GEMM_U64: carnot_gemm_part_u64(&g, part % run->parts); break;
  }
}

void carnot_matmul_run(const carnot_call* call, const carnot_matmul* matmul,
                       carnot_gemm_type type) {
  batch_run run = {matmul, type, carnot_gemm_parts(&matmul->gemm)};
  carnot_call_parallel(call, matmul->batch * run.parts, run_part, &run);
}

// y = alpha * a*b + beta * c with |c| NULL or broadcast to y, in the type that |dtype| is computed
// in.
static carnot_status* run_product(carnot_call* call, bool swap_a, bool swap_b, double alpha,
                                  double beta, const carnot_tensor* c) {
  const carnot_tensor *a = carnot_call_in(call, 0), *b = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  carnot_matmul m;
  CARNOT_TRY(carnot_matmul_plan(call, a, b, swap_a, swap_b, &m));
  int64_t count = carnot_tensor_count(y), c_strides[CARNOT_MAX_RANK] = {0};
  if (c) carnot_broadcast_strides(c, y->rank, c_strides);
#define PRODUCT(suffix, ctype, TYPE, scaled)                                  \
  do {                                                                        \
    const ctype *av, *bv, *cv;                                                \
    ctype* yv;                                                                \
    CARNOT_TRY(carnot_call_##suffix(call, a, &av));                           \
    CARNOT_TRY(carnot_call_##suffix(call, b, &bv));                           \
    CARNOT_TRY(carnot_call_##suffix(call, c, &cv));                           \
    CARNOT_TRY(carnot_call_##suffix##_out(call, y, &yv));                     \
    m.gemm.a = av, m.gemm.b = bv, m.gemm.c = yv;                              \
    carnot_matmul_run(call, &m, TYPE);                                        \
    for (int64_t i = 0; (alpha != 1 || cv) && i < count; i++) {               \
      ctype add = cv ? cv[carnot_offset(i, y->dims, c_strides, y->rank)] : 0; \
      yv[i] = scaled;                                                         \
    }                                                                         \
    carnot_write_##suffix(y, yv);                                             \
  } while (0)
  if (y->dtype == CARNOT_DTYPE_F64) {
    PRODUCT(f64, double, CARNOT_GEMM_F64, alpha* yv[i] + (cv ? beta * add : 0));
  } else if (carnot_dtype_is_float(y->dtype)) {
    PRODUCT(f32, float, CARNOT_GEMM_F32, (float)alpha* yv[i] + (cv ? (float)beta * add : 0));
  } else {
    bool plain = alpha == 1 && beta == 1;
    PRODUCT(i64, int64_t, CARNOT_GEMM_U64,
            plain ? (int64_t)((uint64_t)yv[i] + (uint64_t)add)
                  : (int64_t)(alpha * (double)yv[i] + beta * (double)add));
  }
#undef PRODUCT
  return NULL;
}

// ---- matmul ----

static carnot_status* infer_matmul(carnot_infer* infer) {
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  return carnot_matmul_infer(infer, 0, 1, carnot_infer_int(infer, "transA") != 0,
                             carnot_infer_int(infer, "transB") != 0, infer->inputs[0].type->dtype);
}

static carnot_status* run_matmul(carnot_call* call) {
  return run_product(call, carnot_call_int(call, "transA") != 0,
                     carnot_call_int(call, "transB") != 0, carnot_call_float(call, "alpha"), 1,
                     NULL);
}

// ---- gemm ----

static carnot_status* infer_gemm(carnot_infer* infer) {
  const carnot_type *a, *b, *c;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, 2, &a));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 2, 2, &b));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  CARNOT_TRY(carnot_matmul_infer(infer, 0, 1, carnot_infer_int(infer, "transA") != 0,
                                 carnot_infer_int(infer, "transB") != 0, a->dtype));
  if (!carnot_infer_has(infer, 2)) return NULL;
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 2));
  CARNOT_TRY(carnot_infer_rank(infer, 2, 0, 2, &c));
  carnot_type* y = &infer->outputs[0].type;
  for (int i = 0; y->rank == 2 && c->rank >= 0 && i < c->rank; i++) {
    carnot_sym have = c->dims[i], want = y->dims[2 - c->rank + i];
    if (carnot_sym_is(have, 1) || !carnot_sym_is_const(have) || !carnot_sym_is_const(want))
      continue;
    CARNOT_CHECK(carnot_sym_same(have, want), INVALID_MODEL,
                 "dimension %d of c is %lld; 1 or %lld is required", i, (long long)have.bits,
                 (long long)want.bits);
  }
  return NULL;
}

static carnot_status* run_gemm(carnot_call* call) {
  double beta = carnot_call_float(call, "beta");
  return run_product(call, carnot_call_int(call, "transA") != 0,
                     carnot_call_int(call, "transB") != 0, carnot_call_float(call, "alpha"), beta,
                     beta == 0 ? NULL : carnot_call_in(call, 2));
}

// |activation_bits| 8: by quantized weights, the first operand may be rounded to 8 bits.
static const carnot_attr_spec kMatmulAttrs[] = {
    CARNOT_SPEC_INT("transA", 0), CARNOT_SPEC_INT("transB", 0), CARNOT_SPEC_FLOAT("alpha", 1),
    CARNOT_SPEC_INT("activation_bits", 0), CARNOT_SPEC_END};
static const carnot_attr_spec kGemmAttrs[] = {
    CARNOT_SPEC_INT("transA", 0), CARNOT_SPEC_INT("transB", 0), CARNOT_SPEC_FLOAT("alpha", 1),
    CARNOT_SPEC_FLOAT("beta", 1), CARNOT_SPEC_END};

const carnot_op_row carnot_op_matmul = {
    .name = "matmul",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kMatmulAttrs,
    .traits = CARNOT_TRAIT_CONTRACTION | CARNOT_TRAIT_HALF_AS_F32,
    .infer = infer_matmul,
    .reference = run_matmul,
    .source = "ONNX MatMul-13",
    .layer_type = "MATRIX_MULTIPLY",
};
const carnot_op_row carnot_op_gemm = {
    .name = "gemm",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kGemmAttrs,
    .traits = CARNOT_TRAIT_CONTRACTION | CARNOT_TRAIT_HALF_AS_F32,
    .infer = infer_gemm,
    .reference = run_gemm,
    .source = "ONNX Gemm-13",
    .layer_type = "MATRIX_MULTIPLY",
};
