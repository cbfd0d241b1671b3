// Reduction over axes.
//   y[kept] = fn of x[kept, reduced..]
//   sum, mean, max, min, prod, l1 = sum |x|, l2 = sqrt(sum x^2), sum_square = sum x^2, log_sum =
//   log(sum x), log_sum_exp = log(sum exp(x))
// |axes| (input 1, int64) absent or empty: all axes, or none with noop_with_empty_axes. keepdims
// leaves 1 where an axis was. Floats are summed in double; integers in 64 bits, wrapped on store.
// NaN wins max and min. Over no elements: sum 0, prod 1, max and min the ends of the type, mean NaN
// (integers 0).
#include "ops/pointwise.h"
#include "ops/util.h"

typedef enum reduce_fn {
  REDUCE_SUM,
  REDUCE_MEAN,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_PROD,
  REDUCE_L1,
  REDUCE_L2,
  REDUCE_LOG_SUM,
  REDUCE_LOG_SUM_EXP,
  REDUCE_SUM_SQUARE,
  REDUCE_COUNT
} reduce_fn;
static const char* const kNames[REDUCE_COUNT] = {
    "sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"};

static carnot_status* fn_of(const carnot_op_row* row, const carnot_attrs* attrs, reduce_fn* out) {
  carnot_strview name = carnot_attr_text(row, attrs, "fn");
  for (int i = 0; i < REDUCE_COUNT; i++) {
    if (carnot_view_is(name, kNames[i])) {
      *out = (reduce_fn)i;
      return NULL;
    }
  }
  return CARNOT_ERROR(INVALID_MODEL, "there is no reduction \"" CARNOT_VIEW_FMT "\"",
                      CARNOT_VIEW_ARG(name));
}

// ---- infer ----

// Which axes are reduced; *out_known false: that depends on data not known yet.
static carnot_status* reduced_axes(carnot_infer* infer, int rank, unsigned* out_mask,
                                   bool* out_known) {
  const carnot_sym* syms = NULL;
  size_t count = 0;
  int64_t axes[CARNOT_MAX_RANK];
  *out_known = true;
  *out_mask = 0;
  if (carnot_infer_has(infer, 1)) {
    CARNOT_TRY(carnot_infer_ints(infer, 1, &syms, &count));
    CARNOT_CHECK(!syms || count <= CARNOT_MAX_RANK, INVALID_MODEL, "axes has %zu elements", count);
    const carnot_type* type = infer->inputs[1].type;
    bool empty = type->rank == 1 && carnot_sym_is(type->dims[0], 0);
    if (!empty && !carnot_syms_plain(syms, count, axes)) {
      *out_known = false;
      return NULL;
    }
  }
  if (count == 0) {
    *out_mask = carnot_infer_int(infer, "noop_with_empty_axes") ? 0 : (1u << rank) - 1;
    return NULL;
  }
  return carnot_axes_mask(axes, count, rank, out_mask);
}

// A list of known integers reduced to one.
static void infer_syms(carnot_infer* infer, reduce_fn fn, unsigned mask) {
  size_t count;
  carnot_dtype dtype = infer->inputs[0].type->dtype;
  const carnot_sym* x = carnot_pointwise_syms(infer, 0, &count);
  if (!x || infer->inputs[0].type->rank != 1 || mask != 1 || carnot_dtype_is_float(dtype)) return;
  if (fn > REDUCE_PROD || fn == REDUCE_MEAN || count == 0) return;
  carnot_sym_op op = fn == REDUCE_SUM   ? CARNOT_SYM_ADD
                     : fn == REDUCE_MAX ? CARNOT_SYM_MAX
                     : fn == REDUCE_MIN ? CARNOT_SYM_MIN
                                        : CARNOT_SYM_MUL;
  carnot_sym* all = CARNOT_NEW(infer->arena, carnot_sym);
  *all = x[0];
  for (size_t i = 1; i < count; i++) {
    *all = carnot_sym_make(infer->syms, op, *all, x[i], carnot_sym_of(0));
  }
  infer->outputs[0].syms = all;
  infer->outputs[0].sym_count = 1;
}

static carnot_status* infer_reduce(carnot_infer* infer) {
  const carnot_type* x;
  reduce_fn fn;
  CARNOT_TRY(fn_of(infer->row, infer->attrs, &fn));
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  bool keep = carnot_infer_int(infer, "keepdims") != 0, known = false;
  unsigned mask = 0;
  if (x->rank >= 0) CARNOT_TRY(reduced_axes(infer, x->rank, &mask, &known));
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = known || (x->rank >= 0 && keep) ? 0 : -1;
  for (int i = 0; rank >= 0 && i < x->rank; i++) {
    if (!known) {
      dims[rank++] = carnot_infer_unknown(infer, INT64_MAX / 2);
    } else if (!(mask >> i & 1)) {
      dims[rank++] = x->dims[i];
    } else if (keep) {
      dims[rank++] = carnot_sym_of(1);
    }
  }
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  if (known) infer_syms(infer, fn, mask);
  return NULL;
}

// ---- reference ----

typedef struct reduce_run {
  reduce_fn fn;
  const carnot_tensor* x;
  carnot_tensor* y;
  bool integers, is_unsigned;
  int kept_rank, rank;  // of the dimensions that stay and of those that go
  int64_t kept_dims[CARNOT_MAX_RANK], kept_strides[CARNOT_MAX_RANK];
  int64_t dims[CARNOT_MAX_RANK], strides[CARNOT_MAX_RANK];
  int64_t each, count;  // elements that one result takes; results
} reduce_run;

enum { kChunk = 256, kResults = 64 };

typedef struct sums {
  double value;   // sum, product or extreme
  double around;  // of log_sum_exp: the largest element
} sums;

static void add_floats(reduce_fn fn, sums* s, const double* x, size_t n) {
  double v = s->value;
  for (size_t i = 0; i < n; i++) {
    switch (fn) {
      case REDUCE_SUM:
      case REDUCE_MEAN:
      case REDUCE_LOG_SUM: v += x[i]; break;
      case REDUCE_MAX: v = v != v || x[i] <= v ? v : x[i]; break;
      case REDUCE_MIN: v = v != v || x[i] >= v ? v : x[i]; break;
      case REDUCE_PROD: v *= x[i]; break;
      case REDUCE_L1: v += fabs(x[i]); break;
      case REDUCE_LOG_SUM_EXP: v += exp(x[i] - s->around); break;
      default: v += x[i] * x[i]; break;
    }
  }
  s->value = v;
}

static void add_integers(const reduce_run* r, int64_t* sum, const int64_t* x, size_t n) {
  uint64_t v = (uint64_t)*sum, flip = r->is_unsigned ? (uint64_t)1 << 63 : 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t u = (uint64_t)x[i];
    bool less = (int64_t)(u ^ flip) < (int64_t)(v ^ flip);
    switch (r->fn) {
      case REDUCE_MAX: v = less ? v : u; break;
      case REDUCE_MIN: v = less ? u : v; break;
      case REDUCE_PROD: v *= u; break;
      case REDUCE_L1: v += x[i] < 0 && !r->is_unsigned ? 0 - u : u; break;
      case REDUCE_SUM_SQUARE: v += u * u; break;
      default: v += u; break;
    }
  }
  *sum = (int64_t)v;
}

// Walks what one result takes, in runs of the innermost reduced dimension.
static void walk(const reduce_run* r, int64_t base, reduce_fn fn, sums* floats, int64_t* integers) {
  int64_t width = r->rank ? r->dims[r->rank - 1] : 1;
  int64_t step = r->rank ? r->strides[r->rank - 1] : 1;
  for (int64_t at = 0; at < r->each; at += width) {
    int64_t start = base + carnot_offset(at, r->dims, r->strides, r->rank);
    for (int64_t i = 0; i < width; i += kChunk) {
      size_t n = (size_t)carnot_min_i64(kChunk, width - i);
      if (integers) {
        int64_t x[kChunk];
        carnot_load_block_i64(r->x->dtype, r->x->data, (size_t)(start + i * step), step, n, x);
        add_integers(r, integers, x, n);
      } else {
        double x[kChunk];
        carnot_load_block_f64(r->x->dtype, r->x->data, (size_t)(start + i * step), step, n, x);
        add_floats(fn, floats, x, n);
      }
    }
  }
}

static double reduce_floats(const reduce_run* r, int64_t base) {
  sums s = {r->fn == REDUCE_PROD ? 1 : 0, 0};
  if (r->fn == REDUCE_MAX || r->fn == REDUCE_LOG_SUM_EXP) s.value = -(double)INFINITY;
  if (r->fn == REDUCE_MIN) s.value = (double)INFINITY;
  if (r->fn == REDUCE_LOG_SUM_EXP) {
    walk(r, base, REDUCE_MAX, &s, NULL);
    if (isinf(s.value) || s.value != s.value) return s.value;
    s = (sums){0, s.value};
  }
  walk(r, base, r->fn, &s, NULL);
  switch (r->fn) {
    case REDUCE_MEAN: return s.value / (double)r->each;
    case REDUCE_L2: return sqrt(s.value);
    case REDUCE_LOG_SUM: return log(s.value);
    case REDUCE_LOG_SUM_EXP: return log(s.value) + s.around;
    default: return s.value;
  }
}

static void reduce_integers(const reduce_run* r, int64_t base, int64_t to) {
  int64_t first = carnot_load_i64(r->x->dtype, r->x->data, (size_t)base), sum = 0;
  if (r->fn == REDUCE_PROD) sum = 1;
  if (r->fn == REDUCE_MAX || r->fn == REDUCE_MIN) sum = first;
  walk(r, base, r->fn, NULL, &sum);
  if (r->fn == REDUCE_MEAN) {
    sum = r->is_unsigned ? (int64_t)((uint64_t)sum / (uint64_t)r->each) : sum / r->each;
  }
  carnot_store_i64(r->y->dtype, r->y->data, (size_t)to, sum);
}

static void reduce_part(void* arg, int64_t part) {
  const reduce_run* r = arg;
  int64_t end = carnot_min_i64(r->count, (part + 1) * kResults);
  for (int64_t i = part * kResults; i < end; i++) {
    int64_t base = carnot_offset(i, r->kept_dims, r->kept_strides, r->kept_rank);
    bool exact = r->integers && r->each > 0 && r->fn != REDUCE_L2 && r->fn != REDUCE_LOG_SUM &&
                 r->fn != REDUCE_LOG_SUM_EXP;
    if (exact) {
      reduce_integers(r, base, i);
      continue;
    }
    double value = reduce_floats(r, base);
    // The lower end of bool is false.
    if (r->y->dtype == CARNOT_DTYPE_BOOL && r->each == 0) value = r->fn == REDUCE_MIN;
    carnot_store_f64(r->y->dtype, r->y->data, (size_t)i, value);
  }
}

// Sorts the dimensions of x into kept and reduced ones, neighbours joined; the output's go to
// |out_dims|.
static int split_dims(reduce_run* r, unsigned mask, bool keep, int64_t* out_dims) {
  int64_t strides[CARNOT_MAX_RANK];
  int out_rank = 0;
  carnot_strides(r->x->dims, r->x->rank, strides);
  for (int i = 0; i < r->x->rank; i++) {
    bool reduced = mask >> i & 1, joins = i > 0 && (mask >> i & 1) == (mask >> (i - 1) & 1);
    int64_t* dims = reduced ? r->dims : r->kept_dims;
    int64_t* to = reduced ? r->strides : r->kept_strides;
    int* rank = reduced ? &r->rank : &r->kept_rank;
    if (!reduced || keep) out_dims[out_rank++] = reduced ? 1 : r->x->dims[i];
    if (!joins) dims[(*rank)++] = 1;
    dims[*rank - 1] *= r->x->dims[i];
    to[*rank - 1] = strides[i];
  }
  r->each = carnot_dims_count(r->dims, r->rank);
  r->count = carnot_dims_count(r->kept_dims, r->kept_rank);
  return out_rank;
}

static carnot_status* run_reduce(carnot_call* call) {
  reduce_run r = {.x = carnot_call_in(call, 0), .y = carnot_call_out(call, 0)};
  if (!r.y) return NULL;
  int64_t axes[CARNOT_MAX_RANK], dims[CARNOT_MAX_RANK];
  size_t count;
  unsigned mask;
  CARNOT_TRY(fn_of(call->row, call->attrs, &r.fn));
  CARNOT_TRY(carnot_call_list(call, 1, CARNOT_MAX_RANK, axes, &count));
  CARNOT_TRY(carnot_axes_mask(axes, count, r.x->rank, &mask));
  if (count == 0 && !carnot_call_int(call, "noop_with_empty_axes")) mask = (1u << r.x->rank) - 1;
  int rank = split_dims(&r, mask, carnot_call_int(call, "keepdims") != 0, dims);
  CARNOT_TRY(carnot_call_size_output(call, 0, r.x->dtype, rank, dims));
  r.integers = !carnot_dtype_is_float(r.x->dtype);
  r.is_unsigned = carnot_dtype_kind_of(r.x->dtype) == CARNOT_KIND_UINT;
  carnot_call_parallel(call, carnot_ceildiv(r.count, kResults), reduce_part, &r);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_REQUIRED_WORD("fn", "sum mean max min prod l1 l2 log_sum log_sum_exp sum_square"),
    CARNOT_SPEC_INT("keepdims", 1), CARNOT_SPEC_INT("noop_with_empty_axes", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_reduce = {
    .name = "reduce",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_BYTE_ENDS,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .axes_input = CARNOT_AXES_INPUT(1)},
    .infer = infer_reduce,
    .reference = run_reduce,
    .source = "ONNX ReduceSum-13, ReduceMax-20, ReduceLogSumExp-28 and their like",
    .layer_type = "REDUCE",
};
