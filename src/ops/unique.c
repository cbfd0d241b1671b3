// The distinct elements of a tensor, or the distinct slices along |axis|.
//   y: each once, ascending with |sorted|, else in order of first occurrence; NaNs are equal and
//   come last indices: where each first occurs · inverse: for every element of x its place in y ·
//   counts (all int64)
#include "ops/axis_iter.h"

static carnot_status* infer_unique(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  bool along = carnot_attr_has(infer->attrs, "axis");
  carnot_sym dims[CARNOT_MAX_RANK], items = carnot_infer_unknown(infer, INT64_MAX / 2);
  carnot_sym found = carnot_infer_unknown(infer, INT64_MAX / 2);
  int axis = 0, rank = along ? x->rank : 1;
  if (along && x->rank >= 0) {
    CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
    memcpy(dims, x->dims, sizeof(dims));
    items = dims[axis];
  } else if (x->rank >= 0) {
    items = carnot_sym_product(infer->syms, x->dims, (size_t)x->rank);
  }
  dims[axis] = found;
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  for (int i = 1; i < infer->output_count; i++) {
    carnot_infer_set(infer, i, CARNOT_DTYPE_I64, 1, i == 2 ? &items : &found);
  }
  return NULL;
}

typedef struct slices {
  const carnot_tensor* x;
  carnot_axis_view lanes;
} slices;

static int compare_elements(const carnot_tensor* x, int64_t i, int64_t j) {
  if (x->dtype == CARNOT_DTYPE_STRING) {
    const carnot_strview *a = (carnot_strview*)x->data + i, *b = (carnot_strview*)x->data + j;
    size_t n = a->size < b->size ? a->size : b->size;
    int order = n ? memcmp(a->data, b->data, n) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
  }
  if (carnot_dtype_is_float(x->dtype)) {
    double a = carnot_load_f64(x->dtype, x->data, (size_t)i);
    double b = carnot_load_f64(x->dtype, x->data, (size_t)j);
    if (a != a || b != b) return (a != a) - (b != b);
    return (a > b) - (a < b);
  }
  int64_t a = carnot_load_i64(x->dtype, x->data, (size_t)i);
  int64_t b = carnot_load_i64(x->dtype, x->data, (size_t)j);
  if (x->dtype == CARNOT_DTYPE_U64)
    return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
  return (a > b) - (a < b);
}

static int compare(const slices* s, int64_t a, int64_t b) {
  for (int64_t o = 0; o < s->lanes.outer; o++) {
    for (int64_t i = 0; i < s->lanes.inner; i++) {
      int64_t row = o * s->lanes.length;
      int order =
          compare_elements(s->x, (row + a) * s->lanes.inner + i, (row + b) * s->lanes.inner + i);
      if (order) return order;
    }
  }
  return 0;
}

// ---- elements of numbers: sorted by keys that rise as they do ----

typedef struct keyed {
  uint64_t key;
  int64_t item;
} keyed;

enum { kKeyBytes = 8, kByteValues = 256 };

static uint64_t key_of(const carnot_tensor* x, int64_t i) {
  const uint64_t sign = UINT64_C(1) << 63;
  if (!carnot_dtype_is_float(x->dtype)) {
    const uint64_t bits = (uint64_t)carnot_load_i64(x->dtype, x->data, (size_t)i);
    return x->dtype == CARNOT_DTYPE_U64 ? bits : bits ^ sign;
  }
  const double value = carnot_load_f64(x->dtype, x->data, (size_t)i);
  uint64_t bits = 0;  // of zero, which has two forms
  if (value != value) return UINT64_MAX;
  if (value != 0) memcpy(&bits, &value, sizeof(bits));
  return bits & sign ? ~bits : bits | sign;
}

// A radix sort by bytes, the lowest first, which keeps the order of equal keys; bytes that all keys
// share are passed over. Returns which of both arrays holds the result.
static keyed* sort_keyed(keyed* items, keyed* other, int64_t n, size_t (*begin)[kByteValues]) {
  for (int64_t i = 0; i < n; i++)
    for (int b = 0; b < kKeyBytes; b++) begin[b][items[i].key >> (8 * b) & 0xff]++;
  for (int b = 0; b < kKeyBytes; b++) {
    size_t total = 0;
    bool is_shared = false;
    for (int v = 0; v < kByteValues; v++) {
      const size_t count = begin[b][v];
      is_shared |= count == (size_t)n;
      begin[b][v] = total;
      total += count;
    }
    if (is_shared) continue;
    for (int64_t i = 0; i < n; i++) other[begin[b][items[i].key >> (8 * b) & 0xff]++] = items[i];
    keyed* sorted = other;
    other = items, items = sorted;
  }
  return items;
}

static bool slice_less(const void* context, int64_t a, int64_t b) {
  return compare(context, a, b) < 0;
}
static bool plain_less(const void* context, int64_t a, int64_t b) {
  const int64_t* first = context;
  return first[a] < first[b];
}

static void copy_slices(const slices* s, const int64_t* which, int64_t count, carnot_tensor* y) {
  for (int64_t o = 0; o < s->lanes.outer; o++) {
    for (int64_t k = 0; k < count; k++) {
      for (int64_t i = 0; i < s->lanes.inner; i++) {
        int64_t to = (o * count + k) * s->lanes.inner + i;
        int64_t from = (o * s->lanes.length + which[k]) * s->lanes.inner + i;
        if (y->dtype == CARNOT_DTYPE_STRING) {
          ((carnot_strview*)y->data)[to] = ((carnot_strview*)s->x->data)[from];
        } else {
          carnot_copy_element(y->dtype, y->data, (size_t)to, s->x->data, (size_t)from);
        }
      }
    }
  }
}

// What was found: group g first occurs at first[g], counts[g] times; slice i belongs to group
// group[i].
typedef struct groups {
  int64_t count;
  int64_t *first, *counts, *group;
} groups;

// The slices in order, equal ones as they come; |is_new|[i]: the i-th differs from the one before.
static carnot_status* sort_slices(const carnot_call* call, const slices* s, int64_t* items,
                                  bool* is_new) {
  int64_t n = s->lanes.length, *scratch = NULL;
  if (s->lanes.outer * s->lanes.inner != 1 || s->x->dtype == CARNOT_DTYPE_STRING) {
    CARNOT_TRY(carnot_call_array(call, n, sizeof(int64_t), &scratch));
    for (int64_t i = 0; i < n; i++) items[i] = i;
    carnot_sort_stable(items, scratch, n, slice_less, s);
    for (int64_t i = 0; i < n; i++) is_new[i] = i == 0 || compare(s, items[i - 1], items[i]);
    return NULL;
  }
  keyed *a = NULL, *b = NULL;
  size_t(*begin)[kByteValues] = NULL;
  CARNOT_TRY(carnot_call_array(call, n, sizeof(keyed), &a));
  CARNOT_TRY(carnot_call_array(call, n, sizeof(keyed), &b));
  CARNOT_TRY(carnot_call_array(call, kKeyBytes, sizeof(*begin), &begin));
  for (int64_t i = 0; i < n; i++) a[i] = (keyed){key_of(s->x, i), i};
  const keyed* sorted = sort_keyed(a, b, n, begin);
  for (int64_t i = 0; i < n; i++) {
    items[i] = sorted[i].item;
    is_new[i] = i == 0 || sorted[i].key != sorted[i - 1].key;
  }
  return NULL;
}

static carnot_status* find_groups(const carnot_call* call, const slices* s, groups* g) {
  int64_t n = s->lanes.length, *items = NULL;
  bool* is_new = NULL;
  CARNOT_TRY(carnot_call_array(call, n, sizeof(int64_t), &items));
  CARNOT_TRY(carnot_call_array(call, n, sizeof(bool), &is_new));
  CARNOT_TRY(carnot_call_array(call, n, sizeof(int64_t), &g->first));
  CARNOT_TRY(carnot_call_array(call, n, sizeof(int64_t), &g->counts));
  CARNOT_TRY(carnot_call_array(call, n, sizeof(int64_t), &g->group));
  CARNOT_TRY(sort_slices(call, s, items, is_new));
  g->count = 0;
  for (int64_t i = 0; i < n; i++) {
    if (is_new[i]) g->first[g->count++] = items[i];
    g->group[items[i]] = g->count - 1;
    g->counts[g->count - 1]++;
  }
  return NULL;
}

static carnot_status* write_list(const carnot_call* call, int output, int64_t count,
                                 int64_t** out_items) {
  *out_items = NULL;
  if (!carnot_call_out(call, output)) return NULL;
  CARNOT_TRY(carnot_call_size_output(call, output, CARNOT_DTYPE_I64, 1, &count));
  *out_items = carnot_call_out(call, output)->data;
  return NULL;
}

static carnot_status* run_unique(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  slices s = {x, {1, carnot_tensor_count(x), 1}};
  int64_t dims[CARNOT_MAX_RANK], *order = NULL, *place = NULL, *indices, *inverse, *counts;
  bool along = carnot_attr_has(call->attrs, "axis");
  int axis = 0;
  if (along) {
    CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
    s.lanes = carnot_axis_view_of(x->dims, x->rank, axis);
    memcpy(dims, x->dims, sizeof(dims));
  }
  groups g = {0};
  CARNOT_TRY(find_groups(call, &s, &g));
  CARNOT_TRY(carnot_call_array(call, g.count, sizeof(int64_t), &order));
  CARNOT_TRY(carnot_call_array(call, g.count, sizeof(int64_t), &place));
  for (int64_t i = 0; i < g.count; i++) order[i] = i;
  if (!carnot_call_int(call, "sorted")) {
    carnot_sort_stable(order, place, g.count, plain_less, g.first);
  }
  for (int64_t i = 0; i < g.count; i++) place[order[i]] = i;
  CARNOT_TRY(write_list(call, 1, g.count, &indices));
  CARNOT_TRY(write_list(call, 2, s.lanes.length, &inverse));
  CARNOT_TRY(write_list(call, 3, g.count, &counts));
  for (int64_t i = 0; i < g.count; i++) {
    if (indices) indices[i] = g.first[order[i]];
    if (counts) counts[i] = g.counts[order[i]];
  }
  for (int64_t i = 0; inverse && i < s.lanes.length; i++) inverse[i] = place[g.group[i]];
  if (!carnot_call_out(call, 0)) return NULL;
  dims[axis] = g.count;
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, along ? x->rank : 1, dims));
  for (int64_t i = 0; i < g.count; i++) order[i] = g.first[order[i]];
  copy_slices(&s, order, g.count, carnot_call_out(call, 0));
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_INT("axis", 0), CARNOT_SPEC_INT("sorted", 1),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_unique = {
    .name = "unique",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 4,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kAttrs,
    .infer = infer_unique,
    .reference = run_unique,
    .source = "ONNX Unique-28",
    .layer_type = "REFERENCE",
};
