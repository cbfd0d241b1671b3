// The tables of operators and element-wise functions; attributes with their defaults; helpers of
// infer functions and reference kernels.
#include "ir/op.h"

#include "base/executor.h"

static const carnot_op_row* const kRows[CARNOT_OP_COUNT] = {
#define OP(NAME, name) &carnot_op_##name,
#include "ir/ops.def"
#undef OP
};

const carnot_op_row* carnot_op_get(carnot_op op) { return kRows[op]; }

carnot_op carnot_op_find(carnot_strview name) {
  int i = 0;
  while (i < CARNOT_OP_COUNT && !carnot_view_is(name, kRows[i]->name)) i++;
  return (carnot_op)i;
}

#define TYPES_F  'F'
#define TYPES_I  'I'
#define TYPES_N  'N'
#define TYPES_B  'B'
#define TYPES_A  'A'
#define RESULT_S false
#define RESULT_B true
#define RANGE_K  true
#define RANGE_U  false
static const carnot_fn_fact kFns[CARNOT_FN_COUNT] = {
#define FN(NAME, name, arity, types, result, range, formula) \
  {name, arity, TYPES_##types, RESULT_##result, RANGE_##range},
#include "base/fn.def"
#undef FN
};

const carnot_fn_fact* carnot_fn_get(carnot_fn fn) { return &kFns[fn]; }

carnot_fn carnot_fn_find(carnot_strview name) {
  int i = 0;
  while (i < CARNOT_FN_COUNT && !carnot_view_is(name, kFns[i].name)) i++;
  return (carnot_fn)i;
}

// ---- attributes ----

static const carnot_attr_spec* find_spec(const carnot_op_row* row, const char* name) {
  for (const carnot_attr_spec* spec = row->attrs; spec && spec->name; spec++)
    if (strcmp(spec->name, name) == 0) return spec;
  return NULL;
}

int64_t carnot_attr_int(const carnot_op_row* row, const carnot_attrs* attrs, const char* name) {
  const carnot_attr* attr = carnot_attrs_find(attrs, name);
  if (attr && attr->type == CARNOT_ATTR_INT) return attr->i;
  const carnot_attr_spec* spec = find_spec(row, name);
  return spec ? (int64_t)spec->number : 0;
}

double carnot_attr_float(const carnot_op_row* row, const carnot_attrs* attrs, const char* name) {
  const carnot_attr* attr = carnot_attrs_find(attrs, name);
  if (attr && attr->type == CARNOT_ATTR_FLOAT) return attr->f;
  const carnot_attr_spec* spec = find_spec(row, name);
  return spec ? spec->number : 0;
}

carnot_strview carnot_attr_text(const carnot_op_row* row, const carnot_attrs* attrs,
                                const char* name) {
  const carnot_attr* attr = carnot_attrs_find(attrs, name);
  if (attr && attr->type == CARNOT_ATTR_STRING) return attr->s;
  const carnot_attr_spec* spec = find_spec(row, name);
  return carnot_view(spec && spec->text ? spec->text : "");
}

bool carnot_attr_is(const carnot_op_row* row, const carnot_attrs* attrs, const char* name,
                    const char* text) {
  return carnot_view_is(carnot_attr_text(row, attrs, name), text);
}

const int64_t* carnot_attr_ints(const carnot_attrs* attrs, const char* name, size_t* out_count) {
  const carnot_attr* attr = carnot_attrs_find(attrs, name);
  bool found = attr && attr->type == CARNOT_ATTR_INTS;
  *out_count = found ? attr->count : 0;
  return found ? attr->ints : NULL;
}

const double* carnot_attr_floats(const carnot_attrs* attrs, const char* name, size_t* out_count) {
  const carnot_attr* attr = carnot_attrs_find(attrs, name);
  bool found = attr && attr->type == CARNOT_ATTR_FLOATS;
  *out_count = found ? attr->count : 0;
  return found ? attr->floats : NULL;
}

bool carnot_attr_has(const carnot_attrs* attrs, const char* name) {
  return carnot_attrs_find(attrs, name) != NULL;
}

// |words|: parted by spaces.
static bool is_word_of(const char* words, carnot_strview text) {
  for (const char* at = words; *at; at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == text.size && memcmp(at, text.data, text.size) == 0) return true;
  return false;
}

carnot_status* carnot_attrs_check(const carnot_op_row* row, const carnot_attrs* attrs) {
  for (size_t i = 0; i < attrs->count; i++) {
    const carnot_attr* attr = &attrs->items[i];
    const carnot_attr_spec* spec = find_spec(row, attr->name);
    CARNOT_CHECK(spec, INVALID_MODEL, "%s has no attribute %s", row->name, attr->name);
    CARNOT_CHECK(spec->type == attr->type, INVALID_MODEL,
                 "attribute %s of %s has type %d, must be %d", attr->name, row->name,
                 (int)attr->type, (int)spec->type);
    CARNOT_CHECK(!spec->words || is_word_of(spec->words, attr->s), INVALID_MODEL,
                 "attribute %s of %s is \"" CARNOT_VIEW_FMT "\"; one of these is required: %s",
                 attr->name, row->name, CARNOT_VIEW_ARG(attr->s), spec->words);
  }
  for (const carnot_attr_spec* spec = row->attrs; spec && spec->name; spec++)
    CARNOT_CHECK(!spec->required || carnot_attrs_find(attrs, spec->name), INVALID_MODEL,
                 "%s lacks its required attribute %s", row->name, spec->name);
  return NULL;
}

// ---- inference ----

carnot_status* carnot_infer_tensor(const carnot_infer* infer, int input,
                                   const carnot_type** out_type) {
  *out_type = NULL;
  CARNOT_CHECK(carnot_infer_has(infer, input), INVALID_MODEL, "input %d of %s is missing", input,
               infer->row->name);
  const carnot_type* type = infer->inputs[input].type;
  CARNOT_CHECK(type->kind == CARNOT_VALUE_TENSOR, INVALID_MODEL, "input %d of %s is no tensor",
               input, infer->row->name);
  *out_type = type;
  return NULL;
}

carnot_status* carnot_infer_ints(carnot_infer* infer, int input, const carnot_sym** out_syms,
                                 size_t* out_count) {
  *out_syms = NULL;
  *out_count = 0;
  const carnot_type* type;
  CARNOT_TRY(carnot_infer_tensor(infer, input, &type));
  const carnot_infer_input* in = &infer->inputs[input];
  if (in->syms) {
    *out_syms = in->syms;
    *out_count = in->sym_count;
    return NULL;
  }
  if (!in->tensor || !in->tensor->data) return NULL;
  const carnot_tensor* t = in->tensor;
  CARNOT_CHECK(carnot_dtype_is_integer(t->dtype) || t->dtype == CARNOT_DTYPE_BOOL, INVALID_MODEL,
               "input %d of %s has type %s, must be an integer type", input, infer->row->name,
               carnot_dtype_name(t->dtype));
  size_t count = (size_t)carnot_tensor_count(t);
  void* memory;
  CARNOT_TRY(
      carnot_arena_try(infer->arena, count + 1, sizeof(carnot_sym), "known values", &memory));
  carnot_sym* syms = memory;
  for (size_t i = 0; i < count; i++) {
    int64_t value = carnot_load_i64(t->dtype, t->data, i);
    // Slice writes INT64_MAX and INT64_MIN for "to the end": within the range of plain integers
    // they mean the same.
    syms[i] =
        carnot_sym_of(carnot_max_i64(-CARNOT_SYM_LIMIT, carnot_min_i64(CARNOT_SYM_LIMIT, value)));
  }
  *out_syms = syms;
  *out_count = count;
  return NULL;
}

carnot_status* carnot_infer_floats(carnot_infer* infer, int input, const double** out_values,
                                   size_t* out_count) {
  *out_values = NULL;
  *out_count = 0;
  const carnot_type* type;
  CARNOT_TRY(carnot_infer_tensor(infer, input, &type));
  const carnot_tensor* t = infer->inputs[input].tensor;
  if (!t || !t->data) return NULL;
  size_t count = (size_t)carnot_tensor_count(t);
  void* memory;
  CARNOT_TRY(carnot_arena_try(infer->arena, count + 1, sizeof(double), "known values", &memory));
  double* values = memory;
  for (size_t i = 0; i < count; i++) values[i] = carnot_load_f64(t->dtype, t->data, i);
  *out_values = values;
  *out_count = count;
  return NULL;
}

carnot_status* carnot_axis(int64_t axis, int rank, const char* what, int* out_axis) {
  *out_axis = 0;
  CARNOT_CHECK(axis >= -rank && axis < rank, INVALID_MODEL, "%s %lld is outside [-%d, %d)", what,
               (long long)axis, rank, rank);
  *out_axis = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

void carnot_infer_set(carnot_infer* infer, int i, carnot_dtype dtype, int rank,
                      const carnot_sym* dims) {
  if (i >= infer->output_count) return;
  carnot_type* type = &infer->outputs[i].type;
  *type = (carnot_type){.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) type->dims[d] = dims[d];
}

carnot_status* carnot_infer_like(carnot_infer* infer, int i, int input, carnot_dtype dtype) {
  const carnot_type* type;
  CARNOT_TRY(carnot_infer_tensor(infer, input, &type));
  carnot_infer_set(infer, i, dtype, type->rank, type->dims);
  return NULL;
}

carnot_sym carnot_infer_unknown(carnot_infer* infer, int64_t max) {
  return carnot_sym_new(infer->syms, NULL, 0, max);
}

carnot_status* carnot_infer_merge(carnot_infer* infer, carnot_sym a, carnot_sym b, const char* what,
                                  carnot_sym* out) {
  *out = carnot_sym_is_const(a) ? a : b;
  if (carnot_sym_same(a, b)) return NULL;
  int64_t min, max;
  carnot_sym_range(infer->syms, carnot_sym_sub(infer->syms, a, b), &min, &max);
  if (min <= 0 && max >= 0) return NULL;
  char x[96], y[96];
  carnot_sym_print(infer->syms, a, x, sizeof(x));
  carnot_sym_print(infer->syms, b, y, sizeof(y));
  return CARNOT_ERROR(INVALID_MODEL, "%s: %s and %s must be equal", what, x, y);
}

static carnot_status* broadcast_dim(carnot_infer* infer, int at, carnot_sym a, carnot_sym b,
                                    carnot_sym* out) {
  *out = a;
  if (carnot_sym_same(a, b) || carnot_sym_is(b, 1)) return NULL;
  *out = b;
  if (carnot_sym_is(a, 1)) return NULL;
  bool const_a = carnot_sym_is_const(a), const_b = carnot_sym_is_const(b);
  if (const_a && const_b)
    return CARNOT_ERROR(INVALID_MODEL,
                        "sizes %lld and %lld of dimension %d (from the last) do not broadcast",
                        (long long)a.bits, (long long)b.bits, at);
  // A constant other than 1 decides; of two expressions neither can be 1 when its minimum says so.
  int64_t amin, amax, bmin, bmax;
  carnot_sym_range(infer->syms, a, &amin, &amax);
  carnot_sym_range(infer->syms, b, &bmin, &bmax);
  *out = const_a    ? a
         : const_b  ? b
         : amin > 1 ? a
         : bmin > 1 ? b
                    : carnot_sym_max(infer->syms, a, b);
  return NULL;
}

carnot_status* carnot_infer_broadcast(carnot_infer* infer, carnot_type* a, const carnot_type* b) {
  if (a->rank < 0 || b->rank < 0) {
    a->rank = -1;
    return NULL;
  }
  int rank = a->rank > b->rank ? a->rank : b->rank;
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    int ai = a->rank - 1 - i, bi = b->rank - 1 - i;
    carnot_sym one = carnot_sym_of(1);
    CARNOT_TRY(broadcast_dim(infer, i, ai >= 0 ? a->dims[ai] : one, bi >= 0 ? b->dims[bi] : one,
                             &dims[rank - 1 - i]));
  }
  a->rank = rank;
  memcpy(a->dims, dims, (size_t)rank * sizeof(*dims));
  return NULL;
}

// ---- reference kernels ----

carnot_status* carnot_call_alloc(const carnot_call* call, size_t bytes, void** out_memory) {
  *out_memory = NULL;
  return call->host->alloc(call->host, bytes ? bytes : 1, out_memory);
}

carnot_status* carnot_call_size_output(const carnot_call* call, int i, carnot_dtype dtype, int rank,
                                       const int64_t* dims) {
  if (i >= call->output_count || !call->outputs[i]) return NULL;
  carnot_rt_value* cell = call->outputs[i];
  carnot_tensor* t = &cell->tensor;
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(dtype, dims, rank, &bytes), "output %d of %s", i,
                call->row->name);
  if (cell->kind == CARNOT_VALUE_TENSOR && t->data) {
    bool same = t->dtype == dtype && t->rank == rank;
    for (int d = 0; same && d < rank; d++) same = t->dims[d] == dims[d];
    if (same) return NULL;
    char planned[128], found[128];
    carnot_dims_print(t->dims, t->rank, planned, sizeof(planned));
    carnot_dims_print(dims, rank, found, sizeof(found));
    return CARNOT_ERROR(INTERNAL, "output %d of %s was planned as %s %s and came out as %s %s", i,
                        call->row->name, carnot_dtype_name(t->dtype), planned,
                        carnot_dtype_name(dtype), found);
  }
  cell->kind = CARNOT_VALUE_TENSOR;
  t->dtype = dtype;
  t->rank = rank;
  memcpy(t->dims, dims, (size_t)rank * sizeof(*dims));
  return carnot_call_alloc(call, bytes, &t->data);
}

carnot_status* carnot_call_set_items(const carnot_call* call, int i, carnot_value_kind kind,
                                     const carnot_rt_value* const* items, size_t count) {
  if (i >= call->output_count || !call->outputs[i]) return NULL;
  void* copy;
  CARNOT_TRY(carnot_call_alloc(call, (count + 1) * sizeof(*items), &copy));
  if (count) memcpy(copy, items, count * sizeof(*items));
  carnot_rt_value* cell = call->outputs[i];
  cell->kind = kind;
  cell->items = copy;
  cell->item_count = count;
  return NULL;
}

carnot_status* carnot_call_new_tensor(const carnot_call* call, carnot_dtype dtype, int rank,
                                      const int64_t* dims, carnot_rt_value** out_cell) {
  *out_cell = NULL;
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(dtype, dims, rank, &bytes), "a tensor of %s", call->row->name);
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, sizeof(carnot_rt_value), &memory));
  carnot_rt_value* cell = memory;
  *cell = (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR, .tensor = {.dtype = dtype, .rank = rank}};
  if (rank) memcpy(cell->tensor.dims, dims, (size_t)rank * sizeof(*dims));
  CARNOT_TRY(carnot_call_alloc(call, bytes, &cell->tensor.data));
  *out_cell = cell;
  return NULL;
}

carnot_status* carnot_call_text(const carnot_call* call, carnot_strview text,
                                carnot_strview* out_text) {
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, text.size + 1, &memory));
  if (text.size) memcpy(memory, text.data, text.size);
  ((char*)memory)[text.size] = 0;
  *out_text = (carnot_strview){memory, text.size};
  return NULL;
}

void carnot_call_parallel(const carnot_call* call, int64_t part_count,
                          void (*fn)(void* arg, int64_t part), void* arg) {
  carnot_executor_parallel(call->host->executor, part_count, fn, arg);
}
