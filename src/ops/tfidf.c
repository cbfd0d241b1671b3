// Counts of known n-grams.
//   x [c] or [n, c] of integers or text → y [m] or [n, m]; y[ngram_indexes[i]] counts the i-th
//   n-gram of the pool in the row, items taken 1 to max_skip_count + 1 apart. IDF: weights[i] where
//   the count is not 0; TFIDF: the product.
// The pool holds the 1-grams, then the 2-grams … as flat lists that begin at ngram_counts[length -
// 1]. Source: ONNX TfIdfVectorizer-9.
#include "ops/infer_help.h"
#include "ops/util.h"

typedef struct pool {
  const int64_t* numbers;
  const carnot_strview* words;
  size_t size;
  const int64_t *starts, *indexes;
  size_t start_count, index_count;
} pool;

static carnot_status* read_pool(const carnot_attrs* attrs, pool* p) {
  *p = (pool){0};
  const carnot_attr* words = carnot_attrs_find(attrs, "pool_strings");
  p->numbers = carnot_attr_ints(attrs, "pool_int64s", &p->size);
  if (words) {
    p->words = words->strings;
    p->size = words->count;
  }
  CARNOT_CHECK((p->numbers != NULL) != (p->words != NULL), INVALID_MODEL,
               "one of pool_int64s and pool_strings must be there");
  p->starts = carnot_attr_ints(attrs, "ngram_counts", &p->start_count);
  p->indexes = carnot_attr_ints(attrs, "ngram_indexes", &p->index_count);
  CARNOT_CHECK(p->index_count > 0, INVALID_MODEL, "ngram_indexes is empty");
  for (size_t i = 0; i < p->start_count; i++) {
    int64_t low = i ? p->starts[i - 1] : 0;
    CARNOT_CHECK(p->starts[i] >= low && p->starts[i] <= (int64_t)p->size, INVALID_MODEL,
                 "ngram_counts %zu is %lld, must be in [%lld, %zu]", i, (long long)p->starts[i],
                 (long long)low, p->size);
  }
  return NULL;
}

static carnot_status* output_size(const pool* p, int64_t* out_size) {
  *out_size = 0;
  for (size_t i = 0; i < p->index_count; i++) {
    CARNOT_CHECK(p->indexes[i] >= 0 && p->indexes[i] < INT32_MAX, INVALID_MODEL,
                 "ngram_indexes %zu is %lld", i, (long long)p->indexes[i]);
    *out_size = carnot_max_i64(*out_size, p->indexes[i] + 1);
  }
  return NULL;
}

static carnot_status* infer_tfidf(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_CHECK(x->rank < 0 || x->rank == 1 || x->rank == 2, INVALID_MODEL,
               "rank %d, must be 1 or 2", x->rank);
  pool p;
  int64_t size;
  CARNOT_TRY(read_pool(infer->attrs, &p));
  CARNOT_TRY(output_size(&p, &size));
  carnot_sym dims[2] = {x->dims[0], carnot_sym_of(size)};
  if (x->rank == 1) dims[0] = carnot_sym_of(size);
  carnot_infer_set(infer, 0, CARNOT_DTYPE_F32, x->rank, dims);
  return NULL;
}

static bool same_item(const pool* p, size_t at, const carnot_tensor* x, int64_t index) {
  if (p->words) return carnot_view_equal(p->words[at], ((const carnot_strview*)x->data)[index]);
  return p->numbers[at] == carnot_load_i64(x->dtype, x->data, (size_t)index);
}

// Adds the n-gram of |length| items from |first| on, |step| apart, when the pool has it. |gram|
// numbers the first one of this length.
static void count_gram(const pool* p, const carnot_tensor* x, int64_t first, int64_t step,
                       int64_t length, size_t begin, size_t end, size_t gram, float* row) {
  for (size_t at = begin; at + (size_t)length <= end; at += (size_t)length, gram++) {
    bool same = true;
    for (int64_t i = 0; i < length && same; i++)
      same = same_item(p, at + (size_t)i, x, first + i * step);
    if (same && gram < p->index_count) row[p->indexes[gram]] += 1;
    if (same) return;
  }
}

static void count_row(const carnot_call* call, const pool* p, const carnot_tensor* x,
                      int64_t row_start, int64_t columns, float* row) {
  int64_t shortest = carnot_call_int(call, "min_gram_length"),
          longest = carnot_call_int(call, "max_gram_length");
  int64_t most_skips = carnot_min_i64(carnot_call_int(call, "max_skip_count"), columns);
  size_t gram = 0;
  for (int64_t length = 1; length <= longest && (size_t)length <= p->start_count; length++) {
    size_t begin = (size_t)p->starts[length - 1];
    size_t end = (size_t)length < p->start_count ? (size_t)p->starts[length] : p->size;
    // Single items have nothing to skip.
    int64_t skips = length == 1 ? 0 : most_skips;
    for (int64_t skip = 0; skip <= skips && length >= shortest; skip++) {
      for (int64_t i = 0; i + (length - 1) * (skip + 1) < columns; i++) {
        count_gram(p, x, row_start + i, skip + 1, length, begin, end, gram, row);
      }
    }
    gram += (end - begin) / (size_t)length;
  }
}

static carnot_status* run_tfidf(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  pool p;
  CARNOT_TRY(read_pool(call->attrs, &p));
  CARNOT_CHECK((x->dtype == CARNOT_DTYPE_STRING) == (p.words != NULL), INVALID_ARGUMENT,
               "the input has type %s, the pool another", carnot_dtype_name(x->dtype));
  bool idf = carnot_call_is(call, "mode", "IDF"), product = carnot_call_is(call, "mode", "TFIDF");
  CARNOT_CHECK(idf || product || carnot_call_is(call, "mode", "TF"), INVALID_MODEL,
               "mode must be TF, IDF or TFIDF");
  size_t weight_count;
  const double* weights = carnot_attr_floats(call->attrs, "weights", &weight_count);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int64_t rows = x->rank == 2 ? x->dims[0] : 1, columns = x->dims[x->rank - 1],
          size = y->dims[y->rank - 1];
  float* out = y->data;
  memset(out, 0, carnot_tensor_bytes(y));
  for (int64_t r = 0; r < rows; r++) {
    float* row = out + r * size;
    count_row(call, &p, x, r * columns, columns, row);
    for (size_t i = 0; (idf || product) && i < p.index_count; i++) {
      float* cell = &row[p.indexes[i]];
      float weight = weights && i < weight_count ? (float)weights[i] : 1;
      *cell = idf ? (*cell > 0 ? weight : 0) : *cell * weight;
    }
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_REQUIRED_WORD("mode", "TF IDF TFIDF"),
    {"min_gram_length", CARNOT_ATTR_INT, true, 0, NULL, NULL},
    {"max_gram_length", CARNOT_ATTR_INT, true, 0, NULL, NULL},
    {"max_skip_count", CARNOT_ATTR_INT, true, 0, NULL, NULL},
    {"ngram_counts", CARNOT_ATTR_INTS, true, 0, NULL, NULL},
    {"ngram_indexes", CARNOT_ATTR_INTS, true, 0, NULL, NULL},
    {"pool_int64s", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"pool_strings", CARNOT_ATTR_STRINGS, false, 0, NULL, NULL},
    {"weights", CARNOT_ATTR_FLOATS, false, 0, NULL, NULL},
    {0}};

const carnot_op_row carnot_op_tfidf_vectorizer = {
    .name = "tfidf_vectorizer",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_tfidf,
    .reference = run_tfidf,
    .source = "ONNX TfIdfVectorizer-9",
    .layer_type = "REFERENCE",
};
