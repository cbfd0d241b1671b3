// Attributes of nodes, element types, and values that handlers need at import.
#include "import/tensorflow/complex.h"
#include "import/tensorflow/importer.h"

#include <string.h>

const tf_attr_value* tf_attr_find(const tf_node* node, const char* name) {
  for (size_t i = 0; i < node->attr.count; i++)
    if (carnot_view_is(node->attr.items[i].key, name)) return node->attr.items[i].value;
  return NULL;
}

// The attribute where it holds a value of |kind| (TF_HAS_…); NULL where it is absent, and with an
// error where it holds another.
static const tf_attr_value* attr_of(tf_import* n, const char* name, uint64_t kind) {
  static const char* const kKinds[] = {"list", "text", "integer", "float", "bool", "type", "shape"};
  const tf_attr_value* value = tf_attr_find(n->proto, name);
  if (!value || (value->present & kind)) return value;
  int index = 0;
  while ((uint64_t)1 << index != kind) index++;
  TF_FAIL(n, INVALID_MODEL, "attribute %s holds no %s", name, kKinds[index]);
  return NULL;
}

int64_t tf_int(tf_import* n, const char* name, int64_t absent) {
  const tf_attr_value* value = attr_of(n, name, TF_HAS_I);
  return value ? value->i : absent;
}

bool tf_bool(tf_import* n, const char* name, bool absent) {
  const tf_attr_value* value = attr_of(n, name, TF_HAS_B);
  return value ? value->b != 0 : absent;
}

double tf_float(tf_import* n, const char* name, double absent) {
  const tf_attr_value* value = attr_of(n, name, TF_HAS_F);
  return value ? (double)value->f : absent;
}

bool tf_is(tf_import* n, const char* name, const char* text, const char* absent) {
  const tf_attr_value* value = attr_of(n, name, TF_HAS_S);
  return value ? carnot_view_is(value->s, text) : strcmp(text, absent) == 0;
}

tf_int_list tf_ints(tf_import* n, const char* name) {
  const tf_attr_value* value = tf_attr_find(n->proto, name);
  return value && value->list ? value->list->i : (tf_int_list){NULL, 0};
}

// ---- types ----

static const struct {
  carnot_dtype dtype;
  const char* name;
} kTypes[] = {
    [1] = {CARNOT_DTYPE_F32, "float"},        [2] = {CARNOT_DTYPE_F64, "double"},
    [3] = {CARNOT_DTYPE_I32, "int32"},        [4] = {CARNOT_DTYPE_U8, "uint8"},
    [5] = {CARNOT_DTYPE_I16, "int16"},        [6] = {CARNOT_DTYPE_I8, "int8"},
    [7] = {CARNOT_DTYPE_STRING, "string"},    [8] = {CARNOT_DTYPE_INVALID, "complex64"},
    [9] = {CARNOT_DTYPE_I64, "int64"},        [10] = {CARNOT_DTYPE_BOOL, "bool"},
    [11] = {CARNOT_DTYPE_INVALID, "qint8"},   [12] = {CARNOT_DTYPE_INVALID, "quint8"},
    [13] = {CARNOT_DTYPE_INVALID, "qint32"},  [14] = {CARNOT_DTYPE_BF16, "bfloat16"},
    [15] = {CARNOT_DTYPE_INVALID, "qint16"},  [16] = {CARNOT_DTYPE_INVALID, "quint16"},
    [17] = {CARNOT_DTYPE_U16, "uint16"},      [18] = {CARNOT_DTYPE_INVALID, "complex128"},
    [19] = {CARNOT_DTYPE_F16, "half"},        [20] = {CARNOT_DTYPE_INVALID, "resource"},
    [21] = {CARNOT_DTYPE_INVALID, "variant"}, [22] = {CARNOT_DTYPE_U32, "uint32"},
    [23] = {CARNOT_DTYPE_U64, "uint64"},
};

enum { kRefTypes = 100 };  // added to the type of a reference

static size_t type_index(int64_t number) {
  const int64_t at = number > kRefTypes ? number - kRefTypes : number;
  return at > 0 && at < (int64_t)(sizeof(kTypes) / sizeof(kTypes[0])) ? (size_t)at : 0;
}

carnot_dtype tf_dtype(int64_t number) {
  const size_t at = type_index(number);
  return at ? kTypes[at].dtype : CARNOT_DTYPE_INVALID;
}

const char* tf_dtype_name(int64_t number) {
  const size_t at = type_index(number);
  return at ? kTypes[at].name : "an unknown type";
}

carnot_dtype tf_type(tf_import* n, const char* name, carnot_dtype absent) {
  const tf_attr_value* value = tf_attr_find(n->proto, name);
  if (!value || !(value->present & TF_HAS_TYPE)) return absent;
  const carnot_dtype dtype = tf_dtype(value->type);
  if (dtype == CARNOT_DTYPE_INVALID)
    TF_FAIL(n, UNSUPPORTED, "elements of %s are not supported", tf_dtype_name(value->type));
  return dtype;
}

void tf_read_shape(tf_import* n, const tf_shape* shape, carnot_type* type) {
  type->rank = !shape || shape->unknown_rank ? -1 : (int)shape->dim.count;
  if (type->rank < 0) return;
  if (shape->dim.count > CARNOT_MAX_RANK) {
    TF_FAIL(n, UNSUPPORTED, "%zu dimensions where at most %d are supported", shape->dim.count,
            CARNOT_MAX_RANK);
    type->rank = 0;
    return;
  }
  for (int i = 0; i < type->rank; i++) {
    const int64_t size = shape->dim.items[i].size;
    if (size < -1 || size >= CARNOT_DIM_UNBOUNDED) {
      TF_FAIL(n, INVALID_MODEL, "dimension %d is %lld", i, (long long)size);
      return;
    }
    type->dims[i] =
        size >= 0 ? carnot_sym_of(size)
                  : carnot_sym_new(&n->node.state->graph->syms, NULL, 0, CARNOT_DIM_UNBOUNDED);
  }
}

// ---- values ----

const int64_t* tf_constant_ints(tf_import* n, int input, size_t* out_count) {
  *out_count = 0;
  if (input >= n->input_count) return NULL;
  const carnot_value* value = n->inputs[input];
  const int64_t* list = import_constant_ints(&n->node, value, out_count);
  if (list || n->node.status || !value->syms) return list;
  // Numbers that follow from dimensions and are the same in every run.
  int64_t* known = CARNOT_NEW_ARRAY(n->node.arena, int64_t, value->sym_count + 1);
  if (!import_has_memory(&n->node)) return NULL;
  for (size_t i = 0; i < value->sym_count; i++) {
    if (!carnot_sym_is_const(value->syms[i])) return NULL;
    known[i] = value->syms[i].bits;
  }
  *out_count = value->sym_count;
  return known;
}

const int64_t* tf_need_ints(tf_import* n, int input, const char* what, size_t* out_count) {
  const int64_t* list = tf_constant_ints(n, input, out_count);
  if (!list && !n->node.status) TF_FAIL(n, UNSUPPORTED, "%s must be constant", what);
  return list;
}

int64_t tf_need_int(tf_import* n, int input, const char* what) {
  size_t count = 0;
  const int64_t* list = tf_need_ints(n, input, what, &count);
  if (list && count != 1)
    TF_FAIL(n, INVALID_MODEL, "%s has %zu numbers; 1 is required", what, count);
  return list && count == 1 ? list[0] : 0;
}

carnot_value* tf_int64(tf_import* n, carnot_value* x) {
  return import_cast(&n->node, x, CARNOT_DTYPE_I64);
}

bool tf_is_channels_first(tf_import* n) {
  const tf_attr_value* value = tf_attr_find(n->proto, "data_format");
  return value && value->s.size >= 2 && memcmp(value->s.data, "NC", 2) == 0;
}

carnot_value* tf_first(tf_import* n, carnot_value* x) {
  return tf_is_channels_first(n) ? x : import_move_channels(&n->node, x, false);
}
carnot_value* tf_last(tf_import* n, carnot_value* x) {
  return tf_is_channels_first(n) ? x : import_move_channels(&n->node, x, true);
}

// ---- tensors ----

static const tf_int_list* int_list(const tf_tensor* t) {
  switch (tf_dtype(t->dtype)) {
    case CARNOT_DTYPE_I64: return &t->int64_val;
    case CARNOT_DTYPE_BOOL: return &t->bool_val;
    case CARNOT_DTYPE_F16:
    case CARNOT_DTYPE_BF16: return &t->half_val;
    case CARNOT_DTYPE_U32: return &t->uint32_val;
    case CARNOT_DTYPE_U64: return &t->uint64_val;
    default: return &t->int_val;
  }
}

// Fills |count| elements of |item| bytes from |given|; the last one is repeated.
static void fill_packed(char* to, size_t count, const char* from, size_t given, size_t item) {
  for (size_t i = 0; i < count; i++)
    memcpy(to + i * item, from + (i < given ? i : given - 1) * item, item);
}

static void fill_ints(const carnot_tensor* t, const tf_int_list* list, size_t count) {
  const size_t item = (size_t)carnot_dtype_bits(t->dtype) / 8;
  for (size_t i = 0; i < count; i++) {
    const int64_t value = list->items[i < list->count ? i : list->count - 1];
    memcpy((char*)t->data + i * item, &value, item);  // a half is given by its bits
  }
}

// Lists of values by type; fewer than elements: the last is repeated, none: zeros.
static carnot_status* take_lists(const tf_tensor* proto, size_t bytes, carnot_arena* arena,
                                 carnot_tensor* t) {
  const size_t parts = tf_is_complex_type(proto->dtype) ? 2 : 1,
               count = (size_t)carnot_tensor_count(t) / parts;
  CARNOT_CHECK(bytes <= (size_t)1 << 30, OUT_OF_RANGE,
               "a constant of %zu bytes from lists; at most 2^30 are supported", bytes);
  CARNOT_TRY(carnot_arena_try(arena, bytes + 1, 1, "a tensor's data", &t->data));
  const bool is_float = t->dtype == CARNOT_DTYPE_F32, is_double = t->dtype == CARNOT_DTYPE_F64,
             is_complex = tf_is_complex_type(proto->dtype);
  carnot_strview packed = is_float ? proto->float_val : proto->double_val;
  if (is_complex) packed = is_float ? proto->scomplex_val : proto->dcomplex_val;
  const tf_int_list* ints = int_list(proto);
  const size_t item = (is_float ? 4 : 8) * parts,
               given = is_float || is_double ? packed.size / item : ints->count;
  CARNOT_CHECK(given <= count || (count == 0 && given <= 1), INVALID_MODEL,
               "%zu values for %zu elements", given, count);
  if (!given || !count) return NULL;
  if (is_float || is_double)
    fill_packed(t->data, count, packed.data, given, item);
  else
    fill_ints(t, ints, count);
  return NULL;
}

static carnot_status* take_strings(const tf_tensor* proto, carnot_arena* arena, carnot_tensor* t) {
  const size_t count = (size_t)carnot_tensor_count(t), given = proto->string_val.count;
  CARNOT_CHECK(given <= count, INVALID_MODEL, "%zu texts for %zu elements", given, count);
  CARNOT_TRY(
      carnot_arena_try(arena, count + 1, sizeof(carnot_strview), "a tensor's data", &t->data));
  carnot_strview* to = t->data;
  for (size_t i = 0; i < count; i++)
    to[i] = given ? proto->string_val.items[i < given ? i : given - 1] : carnot_view("");
  return NULL;
}

carnot_status* tf_tensor_read(const tf_tensor* proto, import_files* files, carnot_arena* arena,
                              carnot_tensor* out_tensor) {
  const bool is_complex = tf_is_complex_type(proto->dtype);
  carnot_tensor t = {.dtype =
                         is_complex ? tf_complex_part_type(proto->dtype) : tf_dtype(proto->dtype)};
  const tf_shape* shape = proto->tensor_shape;
  size_t bytes = 0;
  CARNOT_CHECK(t.dtype != CARNOT_DTYPE_INVALID, UNSUPPORTED, "elements of %s are not supported",
               tf_dtype_name(proto->dtype));
  const size_t most = CARNOT_MAX_RANK - is_complex;
  CARNOT_CHECK(!shape || (!shape->unknown_rank && shape->dim.count <= most), UNSUPPORTED,
               "a tensor of unknown rank or of more than %zu dimensions", most);
  t.rank = shape ? (int)shape->dim.count : 0;
  for (int i = 0; i < t.rank; i++) t.dims[i] = shape->dim.items[i].size;
  if (is_complex) t.dims[t.rank++] = 2;
  CARNOT_TRY(carnot_dims_bytes(t.dtype, t.dims, t.rank, &bytes));
  const carnot_strview raw = proto->tensor_content;
  if (t.dtype == CARNOT_DTYPE_STRING) {
    CARNOT_TRY(take_strings(proto, arena, &t));
  } else if (raw.size) {
    CARNOT_CHECK(raw.size == bytes, INVALID_MODEL,
                 "%zu bytes of data where the dimensions ask for %zu", raw.size, bytes);
    const size_t item = (size_t)carnot_dtype_bits(t.dtype) / 8;
    CARNOT_TRY(import_files_take(files, raw, item, arena, &t.data));
  } else {
    CARNOT_TRY(take_lists(proto, bytes, arena, &t));
  }
  *out_tensor = t;
  return NULL;
}
