// Operators that draw random numbers.
//   random_uniform: low + (high - low) * u · random_normal: mean + scale * g · dropout: x / (1 -
//   ratio) or 0 bernoulli: u < x · multinomial: classes drawn by softmax of their log-probabilities
// Number i of a draw depends on the seed and i alone: Philox-4x32-10 with counter i. The seed is
// attribute |seed|, else the run's. Source: Salmon et al., Parallel Random Numbers: As Easy as 1,
// 2, 3 (2011), section 3.
#include "ops/util.h"

// ---- the generator ----

typedef struct philox {
  uint32_t key[2];
} philox;

static philox philox_of(const carnot_call* call) {
  uint64_t bits = call->host->seed;
  if (carnot_attr_has(call->attrs, "seed")) {
    const carnot_attr* seed = carnot_attrs_find(call->attrs, "seed");
    double value = seed->type == CARNOT_ATTR_INT ? (double)seed->i : seed->f;
    memcpy(&bits, &value, sizeof(bits));
  }
  return (philox){{(uint32_t)bits, (uint32_t)(bits >> 32)}};
}

static void philox_block(philox p, uint64_t counter, uint32_t out[4]) {
  uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ p.key[0], (uint32_t)b,
                        (uint32_t)(a >> 32) ^ c[3] ^ p.key[1], (uint32_t)a};
    memcpy(c, next, sizeof(c));
    p.key[0] += 0x9E3779B9u;
    p.key[1] += 0xBB67AE85u;
  }
  memcpy(out, c, sizeof(c));
}

// In [0, 1), from 53 bits.
static double unit(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 21) ^ (low >> 11)) * 0x1p-53;
}
static double uniform_at(philox p, int64_t i) {
  uint32_t words[4];
  philox_block(p, (uint64_t)i, words);
  return unit(words[0], words[1]);
}
// By the method of Box and Muller.
static double normal_at(philox p, int64_t i) {
  uint32_t words[4];
  philox_block(p, (uint64_t)i, words);
  double radius = sqrt(-2 * log(1 - unit(words[0], words[1])));
  return radius * cos(2 * 3.14159265358979323846 * unit(words[2], words[3]));
}

// ---- random_uniform and random_normal ----

// Attribute dtype, or |otherwise| where it is 0 or absent.
static carnot_status* dtype_of(const carnot_infer* infer, carnot_dtype otherwise,
                               carnot_dtype* out) {
  int64_t dtype = carnot_infer_int(infer, "dtype");
  *out = dtype ? (carnot_dtype)dtype : otherwise;
  CARNOT_CHECK(carnot_dtype_valid(*out), INVALID_MODEL, "dtype is %lld, which is no data type",
               (long long)dtype);
  return NULL;
}

static carnot_status* infer_random(carnot_infer* infer) {
  carnot_dtype dtype;
  if (carnot_infer_has(infer, 0)) {
    const carnot_type* like;
    CARNOT_TRY(carnot_infer_tensor(infer, 0, &like));
    CARNOT_TRY(dtype_of(infer, like->dtype, &dtype));
    return carnot_infer_like(infer, 0, 0, dtype);
  }
  size_t rank;
  const int64_t* shape = carnot_attr_ints(infer->attrs, "shape", &rank);
  CARNOT_TRY(dtype_of(infer, CARNOT_DTYPE_F32, &dtype));
  CARNOT_CHECK(carnot_attr_has(infer->attrs, "shape") && rank <= CARNOT_MAX_RANK, INVALID_MODEL,
               "shape is absent or has more than %d elements", CARNOT_MAX_RANK);
  carnot_sym dims[CARNOT_MAX_RANK];
  for (size_t i = 0; i < rank; i++) {
    CARNOT_CHECK(shape[i] >= 0 && shape[i] <= CARNOT_SYM_LIMIT, INVALID_MODEL, "shape[%zu] is %lld",
                 i, (long long)shape[i]);
    dims[i] = carnot_sym_of(shape[i]);
  }
  carnot_infer_set(infer, 0, dtype, (int)rank, dims);
  return NULL;
}

static carnot_status* run_uniform(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  philox p = philox_of(call);
  double low = carnot_call_float(call, "low"), high = carnot_call_float(call, "high");
  for (int64_t i = 0; y && i < carnot_tensor_count(y); i++) {
    carnot_store_f64(y->dtype, y->data, (size_t)i, low + (high - low) * uniform_at(p, i));
  }
  return NULL;
}

static carnot_status* run_normal(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  philox p = philox_of(call);
  double mean = carnot_call_float(call, "mean"), scale = carnot_call_float(call, "scale");
  for (int64_t i = 0; y && i < carnot_tensor_count(y); i++) {
    carnot_store_f64(y->dtype, y->data, (size_t)i, mean + scale * normal_at(p, i));
  }
  return NULL;
}

// ---- bernoulli, multinomial, dropout ----

static carnot_status* infer_bernoulli(carnot_infer* infer) {
  const carnot_type* x;
  carnot_dtype dtype;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(dtype_of(infer, x->dtype, &dtype));
  return carnot_infer_like(infer, 0, 0, dtype);
}

static carnot_status* run_bernoulli(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  philox p = philox_of(call);
  for (int64_t i = 0; y && i < carnot_tensor_count(x); i++) {
    bool one = uniform_at(p, i) < carnot_load_f64(x->dtype, x->data, (size_t)i);
    carnot_store_f64(y->dtype, y->data, (size_t)i, one);
  }
  return NULL;
}

static carnot_status* infer_multinomial(carnot_infer* infer) {
  const carnot_type* x;
  carnot_dtype dtype;
  int64_t samples = carnot_infer_int(infer, "sample_size");
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, 2, &x));
  CARNOT_TRY(dtype_of(infer, CARNOT_DTYPE_I32, &dtype));
  CARNOT_CHECK(samples >= 0 && samples <= INT32_MAX, INVALID_MODEL, "sample_size is %lld",
               (long long)samples);
  carnot_sym dims[2] = {x->rank == 2 ? x->dims[0] : carnot_infer_unknown(infer, INT32_MAX),
                        carnot_sym_of(samples)};
  carnot_infer_set(infer, 0, dtype, 2, dims);
  return NULL;
}

static carnot_status* run_multinomial(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int64_t classes = x->dims[1], samples = y->dims[1];
  CARNOT_CHECK(classes > 0 || carnot_tensor_count(y) == 0, INVALID_ARGUMENT,
               "there are no classes to draw from");
  philox p = philox_of(call);
  const double* logits;
  double* sums = NULL;
  CARNOT_TRY(carnot_call_f64(call, x, &logits));
  CARNOT_TRY(carnot_call_array(call, classes, sizeof(double), &sums));
  for (int64_t b = 0; b < x->dims[0]; b++) {
    const double* row = logits + b * classes;
    double top = -(double)INFINITY, sum = 0;
    for (int64_t c = 0; c < classes; c++) top = row[c] > top ? row[c] : top;
    for (int64_t c = 0; c < classes; c++) sums[c] = sum += exp(row[c] - top);
    for (int64_t s = 0; s < samples; s++) {
      double at = uniform_at(p, b * samples + s) * sum;
      int64_t c = 0;
      while (c < classes - 1 && sums[c] <= at) c++;
      carnot_store_i64(y->dtype, y->data, (size_t)(b * samples + s), c);
    }
  }
  return NULL;
}

static carnot_status* infer_dropout(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_like(infer, 0, 0, x->dtype));
  return infer->output_count > 1 ? carnot_infer_like(infer, 1, 0, CARNOT_DTYPE_BOOL) : NULL;
}

static carnot_status* run_dropout(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor *y = carnot_call_out(call, 0), *mask = carnot_call_out(call, 1);
  double ratio = carnot_scalar_f64(carnot_call_in(call, 1), 0.5);
  bool drops = carnot_scalar_i64(carnot_call_in(call, 2), 0) != 0 && ratio != 0;
  CARNOT_CHECK(!drops || (ratio > 0 && ratio < 1), INVALID_ARGUMENT,
               "ratio is %g; a number in [0, 1) is required", ratio);
  philox p = philox_of(call);
  int64_t count = carnot_tensor_count(x);
  if (y && count) memcpy(y->data, x->data, carnot_tensor_bytes(x));
  for (int64_t i = 0; i < count; i++) {
    bool keep = !drops || uniform_at(p, i) >= ratio;
    if (mask) ((uint8_t*)mask->data)[i] = keep;
    if (!drops || !y) continue;
    double value = carnot_load_f64(x->dtype, x->data, (size_t)i) / (1 - ratio);
    carnot_store_f64(y->dtype, y->data, (size_t)i, keep ? value : 0);
  }
  return NULL;
}

static const carnot_attr_spec kUniformAttrs[] = {
    CARNOT_SPEC_INT("dtype", 0),  CARNOT_SPEC_FLOAT("high", 1),    CARNOT_SPEC_FLOAT("low", 0),
    CARNOT_SPEC_FLOAT("seed", 0), CARNOT_SPEC_LIST("shape", INTS), CARNOT_SPEC_END};
static const carnot_attr_spec kNormalAttrs[] = {
    CARNOT_SPEC_INT("dtype", 0),  CARNOT_SPEC_FLOAT("mean", 0),    CARNOT_SPEC_FLOAT("scale", 1),
    CARNOT_SPEC_FLOAT("seed", 0), CARNOT_SPEC_LIST("shape", INTS), CARNOT_SPEC_END};
static const carnot_attr_spec kBernoulliAttrs[] = {CARNOT_SPEC_INT("dtype", 0),
                                                   CARNOT_SPEC_FLOAT("seed", 0), CARNOT_SPEC_END};
static const carnot_attr_spec kMultinomialAttrs[] = {CARNOT_SPEC_INT("dtype", 0),
                                                     CARNOT_SPEC_INT("sample_size", 1),
                                                     CARNOT_SPEC_FLOAT("seed", 0), CARNOT_SPEC_END};
static const carnot_attr_spec kDropoutAttrs[] = {CARNOT_SPEC_INT("seed", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_random_uniform = {
    .name = "random_uniform",
    .min_inputs = 0,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_RANDOM,
    .attrs = kUniformAttrs,
    .infer = infer_random,
    .reference = run_uniform,
    .source = "ONNX RandomUniform-22, RandomUniformLike-22",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_random_normal = {
    .name = "random_normal",
    .min_inputs = 0,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_RANDOM,
    .attrs = kNormalAttrs,
    .infer = infer_random,
    .reference = run_normal,
    .source = "ONNX RandomNormal-22, RandomNormalLike-22",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_bernoulli = {
    .name = "bernoulli",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_RANDOM,
    .attrs = kBernoulliAttrs,
    .infer = infer_bernoulli,
    .reference = run_bernoulli,
    .source = "ONNX Bernoulli-22",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_multinomial = {
    .name = "multinomial",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_RANDOM,
    .attrs = kMultinomialAttrs,
    .infer = infer_multinomial,
    .reference = run_multinomial,
    .source = "ONNX Multinomial-22",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_dropout = {
    .name = "dropout",
    .min_inputs = 1,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 2,
    .flags = CARNOT_OP_RANDOM,
    .attrs = kDropoutAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32,
    .infer = infer_dropout,
    .reference = run_dropout,
    .source = "ONNX Dropout-22",
    .layer_type = "IDENTITY",
};
