// Tensors from and to files: .npy, TensorProto, raw; pictures are in pictures.c.
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "cli.h"
#include "import/onnx/onnx_proto.h"
#include "import/onnx/tensor_proto.h"

static bool has_ending(const char* path, const char* ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && strcasecmp(path + n - m, ending) == 0;
}

carnot_status* cli_new_tensor(carnot_dtype dtype, int rank, const int64_t* dims,
                              carnot_arena* arena, carnot_rt_value* out) {
  *out = (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR, .tensor = {.dtype = dtype, .rank = rank}};
  memcpy(out->tensor.dims, dims, (size_t)rank * sizeof(*dims));
  size_t bytes;
  CARNOT_TRY(carnot_dims_bytes(dtype, dims, rank, &bytes));
  char* memory;
  CARNOT_TRY(carnot_arena_try(arena, bytes + 64, 1, "a tensor", (void**)&memory));
  out->tensor.data = (void*)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  return NULL;
}

// ---- .npy (NumPy's format, versions 1 to 3) ----

static const struct {
  const char* descr;
  carnot_dtype dtype;
} kNpyTypes[] = {{"<f4", CARNOT_DTYPE_F32}, {"<f8", CARNOT_DTYPE_F64},  {"<f2", CARNOT_DTYPE_F16},
                 {"<i8", CARNOT_DTYPE_I64}, {"<i4", CARNOT_DTYPE_I32},  {"<i2", CARNOT_DTYPE_I16},
                 {"|i1", CARNOT_DTYPE_I8},  {"<u8", CARNOT_DTYPE_U64},  {"<u4", CARNOT_DTYPE_U32},
                 {"<u2", CARNOT_DTYPE_U16}, {"|u1", CARNOT_DTYPE_U8},   {"|b1", CARNOT_DTYPE_BOOL},
                 {"<c8", CARNOT_DTYPE_C64}, {"<c16", CARNOT_DTYPE_C128}};
enum { kNpyTypeCount = sizeof(kNpyTypes) / sizeof(kNpyTypes[0]) };

// The text of |key| in the header's dictionary: a quoted word, or what stands up to the next ',' or
// ')'.
static bool header_field(const char* header, const char* key, char* out, size_t size) {
  const char* at = strstr(header, key);
  if (!at) return false;
  at += strlen(key);
  while (*at == ' ' || *at == ':' || *at == '\'') at++;
  const char* end = *at == '(' ? strchr(at, ')') : strpbrk(at, "',}");
  if (!end || (size_t)(end - at) >= size) return false;
  memcpy(out, at, (size_t)(end - at));
  out[end - at] = 0;
  return true;
}

static carnot_status* read_npy_header(const char* path, const unsigned char* data, size_t size,
                                      size_t* out_start, carnot_tensor* t) {
  CARNOT_CHECK(size >= 12 && memcmp(data, "\x93NUMPY", 6) == 0 && data[6] >= 1 && data[6] <= 3,
               INVALID_MODEL, "%s is no .npy file", path);
  size_t length = data[6] == 1 ? (size_t)data[8] | (size_t)data[9] << 8
                               : (size_t)data[8] | (size_t)data[9] << 8 | (size_t)data[10] << 16 |
                                     (size_t)data[11] << 24;
  size_t start = data[6] == 1 ? 10 : 12;
  CARNOT_CHECK(length <= size - start && length < 65536, INVALID_MODEL,
               "%s: the header of %zu bytes is cut", path, length);
  char header[65536], field[512];
  memcpy(header, data + start, length);
  header[length] = 0;
  *out_start = start + length;
  CARNOT_CHECK(
      header_field(header, "'fortran_order'", field, sizeof(field)) && strcmp(field, "False") == 0,
      UNSUPPORTED, "%s is stored in Fortran order; save it with numpy.ascontiguousarray", path);
  CARNOT_CHECK(header_field(header, "'descr'", field, sizeof(field)), INVALID_MODEL,
               "%s: the header has no type", path);
  int type = 0;
  while (type < kNpyTypeCount && strcmp(kNpyTypes[type].descr, field) != 0) type++;
  CARNOT_CHECK(type < kNpyTypeCount, UNSUPPORTED, "%s has type %s, which is not read", path, field);
  t->dtype = kNpyTypes[type].dtype;
  CARNOT_CHECK(header_field(header, "'shape'", field, sizeof(field)) && field[0] == '(',
               INVALID_MODEL, "%s: the header has no shape", path);
  for (char* at = field + 1; *at;) {
    char* end;
    long long dim = strtoll(at, &end, 10);
    if (end == at) break;
    CARNOT_CHECK(t->rank < CARNOT_MAX_RANK && dim >= 0, INVALID_MODEL,
                 "%s: the shape %s) is not readable", path, field);
    t->dims[t->rank++] = dim;
    at = end + strspn(end, ", ");
  }
  return NULL;
}

static carnot_status* read_npy(const char* path, const carnot_mapping* map, carnot_arena* arena,
                               carnot_rt_value* out) {
  size_t start;
  carnot_tensor t = {0};
  CARNOT_TRY(read_npy_header(path, map->data, map->size, &start, &t));
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(t.dtype, t.dims, t.rank, &bytes), "%s", path);
  CARNOT_CHECK(map->size - start >= bytes, INVALID_MODEL,
               "%s holds %zu bytes of data, its shape takes %zu", path, map->size - start, bytes);
  CARNOT_TRY_AT(cli_new_tensor(t.dtype, t.rank, t.dims, arena, out), "%s", path);
  memcpy(out->tensor.data, (const char*)map->data + start, bytes);
  return NULL;
}

carnot_status* cli_write_npy(const char* path, const carnot_tensor* tensor) {
  carnot_tensor t = *tensor;
  carnot_arena arena = {0};
  int type = 0;
  while (type < kNpyTypeCount && kNpyTypes[type].dtype != t.dtype) type++;
  carnot_status* status = NULL;
  if (type == kNpyTypeCount) {
    // NumPy has no such type: floats go out as float32, integers as int64.
    CARNOT_CHECK(t.dtype != CARNOT_DTYPE_STRING, UNSUPPORTED, "text cannot be written to %s", path);
    carnot_rt_value wide;
    bool is_float = carnot_dtype_is_float(t.dtype);
    status = cli_new_tensor(is_float ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_I64, t.rank, t.dims, &arena,
                            &wide);
    for (int64_t i = 0; !status && i < carnot_tensor_count(&t); i++) {
      if (is_float)
        carnot_store_f64(CARNOT_DTYPE_F32, wide.tensor.data, (size_t)i,
                         carnot_load_f64(t.dtype, t.data, (size_t)i));
      else
        carnot_store_i64(CARNOT_DTYPE_I64, wide.tensor.data, (size_t)i,
                         carnot_load_i64(t.dtype, t.data, (size_t)i));
    }
    t = wide.tensor;
    type = is_float ? 0 : 3;
  }
  char header[512];
  int at = snprintf(header, sizeof(header),
                    "%c%s%c%c..{'descr': '%s', 'fortran_order': False, 'shape': (", 0x93, "NUMPY",
                    1, 0, kNpyTypes[type].descr);
  header[7] = 0;
  for (int d = 0; d < t.rank; d++)
    at += snprintf(header + at, sizeof(header) - (size_t)at, "%lld,%s", (long long)t.dims[d],
                   d + 1 < t.rank ? " " : "");
  at += snprintf(header + at, sizeof(header) - (size_t)at, "), }");
  while ((at + 1) % 64) header[at++] = ' ';
  header[at++] = '\n';
  header[8] = (char)((at - 10) & 255);
  header[9] = (char)((at - 10) >> 8);
  carnot_piece pieces[2] = {{header, (size_t)at}, {t.data, carnot_tensor_bytes(&t)}};
  if (!status) status = carnot_write_file(path, pieces, 2);
  carnot_arena_deinit(&arena);
  return status;
}

static carnot_status* read_raw(const char* path, const carnot_mapping* map,
                               const carnot_plan_binding* b, const carnot_dims* dims,
                               carnot_arena* arena, carnot_rt_value* out) {
  CARNOT_TRY(cli_new_tensor(b->dtype, dims->rank, dims->d, arena, out));
  size_t bytes = carnot_tensor_bytes(&out->tensor);
  char text[128];
  carnot_dims_print(dims->d, dims->rank, text, sizeof(text));
  CARNOT_CHECK(bytes == map->size, INVALID_ARGUMENT,
               "%s holds %zu bytes, input %s as %s %s takes %zu", path, map->size, b->name,
               carnot_dtype_name(b->dtype), text, bytes);
  if (bytes) memcpy(out->tensor.data, map->data, bytes);
  return NULL;
}

carnot_status* cli_read_tensor(const char* path, const carnot_plan_binding* b,
                               const carnot_dims* dims, const cli_image_options* image,
                               carnot_arena* arena, carnot_rt_value* out) {
  carnot_mapping map;
  CARNOT_TRY(carnot_map_file(path, &map));
  carnot_status* status;
  if (has_ending(path, ".npy")) {
    status = read_npy(path, &map, arena, out);
  } else if (has_ending(path, ".pb")) {
    void* copy = carnot_arena_copy(arena, map.data, map.size);
    onnx_tensor* proto = CARNOT_NEW(arena, onnx_tensor);
    *out = (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR};
    status = carnot_pb_read_wire(&carnot_onnx_tensor_message, copy, map.size, arena, proto);
    if (!status) status = carnot_onnx_tensor_read(proto, NULL, arena, &out->tensor);
    status = carnot_status_annotate(status, "%s", path);
  } else if (has_ending(path, ".png") || has_ending(path, ".jpg") || has_ending(path, ".jpeg")) {
    status = cli_read_picture(path, &map, has_ending(path, ".png"), b, dims, image, arena, out);
  } else {
    status = read_raw(path, &map, b, dims, arena, out);
  }
  carnot_unmap(&map);
  return status;
}

carnot_status* cli_random_tensor(const carnot_plan_binding* b, const int64_t* dims,
                                 carnot_arena* arena, carnot_rt_value* out) {
  CARNOT_CHECK(b->dtype != CARNOT_DTYPE_STRING && carnot_dtype_valid(b->dtype), UNSUPPORTED,
               "input %s cannot be made up: it is no tensor of numbers", b->name);
  CARNOT_TRY(cli_new_tensor(b->dtype, b->rank, dims, arena, out));
  bool mask = strstr(b->name, "mask") != NULL;
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < carnot_tensor_count(&out->tensor); i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double unit = (double)(state >> 11) * 0x1p-53;
    bool is_float = carnot_dtype_is_float(b->dtype);
    carnot_store_f64(b->dtype, out->tensor.data, (size_t)i,
                     mask ? 1
                     : is_float
                         ? 2 * unit - 1
                         : (double)(int64_t)(unit * (b->dtype == CARNOT_DTYPE_BOOL       ? 2
                                                     : carnot_dtype_bits(b->dtype) >= 16 ? 1000
                                                                                         : 100)));
  }
  return NULL;
}
