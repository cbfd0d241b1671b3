// Values by key in a table that is sorted.
//   y[i] = values[k] where keys[k] = x[i], the default where no key is
// |x| any dimensions, integers or text  |keys| [n], of x's type, ascending (text by bytes)
// |values| [n]  |default| one element of the values' type. Source: TensorFlow LookupTableFind.
#include "ops/util.h"

enum { kX, kKeys, kValues, kDefault };

static carnot_status* infer_lookup(carnot_infer* infer) {
  const carnot_type *x, *keys, *values, *absent;
  CARNOT_TRY(carnot_infer_tensor(infer, kX, &x));
  CARNOT_TRY(carnot_infer_rank(infer, kKeys, 1, 1, &keys));
  CARNOT_TRY(carnot_infer_rank(infer, kValues, 1, 1, &values));
  CARNOT_TRY(carnot_infer_tensor(infer, kDefault, &absent));
  CARNOT_CHECK(x->dtype == keys->dtype &&
                   (x->dtype == CARNOT_DTYPE_STRING || carnot_dtype_is_integer(x->dtype)),
               INVALID_MODEL, "x is %s and keys are %s; integers or text of one type are required",
               carnot_dtype_name(x->dtype), carnot_dtype_name(keys->dtype));
  CARNOT_CHECK(absent->dtype == values->dtype, INVALID_MODEL, "the default is %s and values are %s",
               carnot_dtype_name(absent->dtype), carnot_dtype_name(values->dtype));
  CARNOT_CHECK(values->dtype == CARNOT_DTYPE_STRING || carnot_dtype_bits(values->dtype) % 8 == 0,
               UNSUPPORTED, "values are %s; whole bytes are required",
               carnot_dtype_name(values->dtype));
  carnot_infer_set(infer, 0, values->dtype, x->rank, x->dims);
  return NULL;
}

static int compare_text(carnot_strview a, carnot_strview b) {
  const size_t shared = a.size < b.size ? a.size : b.size;
  const int order = shared ? memcmp(a.data, b.data, shared) : 0;
  return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare(const carnot_tensor* x, int64_t i, const carnot_tensor* keys, int64_t k) {
  if (x->dtype == CARNOT_DTYPE_STRING)
    return compare_text(((const carnot_strview*)x->data)[i],
                        ((const carnot_strview*)keys->data)[k]);
  const int64_t a = carnot_load_i64(x->dtype, x->data, (size_t)i),
                b = carnot_load_i64(keys->dtype, keys->data, (size_t)k);
  return (a > b) - (a < b);
}

// The position of element |i| of |x| among |keys|; -1: it is none of them.
static int64_t find(const carnot_tensor* x, int64_t i, const carnot_tensor* keys) {
  int64_t low = 0, high = keys->dims[0];
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const int order = compare(x, i, keys, middle);
    if (order == 0) return middle;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return -1;
}

typedef struct lookup_run {
  const carnot_tensor *x, *keys, *values, *absent;
  carnot_tensor* y;
  int64_t count;
} lookup_run;

enum { kPerPart = 1024 };

static void lookup_part(void* arg, int64_t part) {
  const lookup_run* r = arg;
  const int64_t end = carnot_min_i64((part + 1) * kPerPart, r->count);
  const size_t item = r->y->dtype == CARNOT_DTYPE_STRING
                          ? sizeof(carnot_strview)
                          : (size_t)carnot_dtype_bits(r->y->dtype) / 8;
  for (int64_t i = part * kPerPart; i < end; i++) {
    const int64_t k = find(r->x, i, r->keys);
    const char* from = k < 0 ? r->absent->data : (const char*)r->values->data + (size_t)k * item;
    memcpy((char*)r->y->data + (size_t)i * item, from, item);
  }
}

static carnot_status* run_lookup(carnot_call* call) {
  lookup_run r = {carnot_call_in(call, kX),      carnot_call_in(call, kKeys),
                  carnot_call_in(call, kValues), carnot_call_in(call, kDefault),
                  carnot_call_out(call, 0),      0};
  if (!r.y) return NULL;
  CARNOT_CHECK(r.keys->dims[0] == r.values->dims[0], INVALID_MODEL,
               "%lld keys and %lld values; as many are required", (long long)r.keys->dims[0],
               (long long)r.values->dims[0]);
  CARNOT_CHECK(carnot_tensor_count(r.absent) == 1, INVALID_MODEL,
               "the default has %lld elements; 1 is required",
               (long long)carnot_tensor_count(r.absent));
  r.count = carnot_tensor_count(r.y);
  carnot_call_parallel(call, carnot_ceildiv(r.count, kPerPart), lookup_part, &r);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_END};
const carnot_op_row carnot_op_lookup = {
    .name = "lookup",
    .min_inputs = 4,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_lookup,
    .reference = run_lookup,
    .source = "TensorFlow LookupTableFind",
    .layer_type = "REFERENCE",
};
