// Tensors from and to files: .npy, TensorProto, raw bytes; image_io.c reads pictures.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "carnot/onnx.h"
#include "tensor.h"

static bool has_ending(const char* path, const char* ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && strcasecmp(path + n - m, ending) == 0;
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

// The text of |key| in the header's dictionary: a quoted word, or the text up to the next ',' or
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
                                      size_t* out_start, cli_tensor* t) {
  CLI_CHECK(size >= 12 && memcmp(data, "\x93NUMPY", 6) == 0 && data[6] >= 1 && data[6] <= 3,
            INVALID_MODEL, "%s is no .npy file", path);
  size_t length = data[6] == 1 ? (size_t)data[8] | (size_t)data[9] << 8
                               : (size_t)data[8] | (size_t)data[9] << 8 | (size_t)data[10] << 16 |
                                     (size_t)data[11] << 24;
  size_t start = data[6] == 1 ? 10 : 12;
  CLI_CHECK(length <= size - start && length < 65536, INVALID_MODEL,
            "%s: the header of %zu bytes is cut", path, length);
  char header[65536], field[512];
  memcpy(header, data + start, length);
  header[length] = 0;
  *out_start = start + length;
  CLI_CHECK(
      header_field(header, "'fortran_order'", field, sizeof(field)) && strcmp(field, "False") == 0,
      UNSUPPORTED, "%s is stored in Fortran order; save it with numpy.ascontiguousarray", path);
  CLI_CHECK(header_field(header, "'descr'", field, sizeof(field)), INVALID_MODEL,
            "%s: the header has no type", path);
  int type = 0;
  while (type < kNpyTypeCount && strcmp(kNpyTypes[type].descr, field) != 0) type++;
  CLI_CHECK(type < kNpyTypeCount, UNSUPPORTED, "%s has type %s, which is not read", path, field);
  t->dtype = kNpyTypes[type].dtype;
  CLI_CHECK(header_field(header, "'shape'", field, sizeof(field)) && field[0] == '(', INVALID_MODEL,
            "%s: the header has no shape", path);
  for (char* at = field + 1; *at;) {
    char* end;
    long long dim = strtoll(at, &end, 10);
    if (end == at) break;
    CLI_CHECK(t->dims.rank < CARNOT_MAX_RANK && dim >= 0, INVALID_MODEL,
              "%s: the shape %s) is not readable", path, field);
    t->dims.d[t->dims.rank++] = dim;
    at = end + strspn(end, ", ");
  }
  return NULL;
}

static carnot_status* read_npy(const char* path, const cli_mapping* map, cli_arena* arena,
                               cli_tensor* out) {
  size_t start, bytes;
  cli_tensor t = {0};
  CLI_TRY(read_npy_header(path, map->data, map->size, &start, &t));
  CLI_TRY_AT(cli_dims_bytes(t.dtype, &t.dims, &bytes), "%s", path);
  CLI_CHECK(map->size - start >= bytes, INVALID_MODEL,
            "%s holds %zu bytes of data, its shape takes %zu", path, map->size - start, bytes);
  CLI_TRY_AT(cli_tensor_create(t.dtype, &t.dims, arena, out), "%s", path);
  memcpy(out->data, (const char*)map->data + start, bytes);
  return NULL;
}

static int npy_type(carnot_dtype dtype) {
  int type = 0;
  while (type < kNpyTypeCount && kNpyTypes[type].dtype != dtype) type++;
  return type;
}

// |tensor| in a type that NumPy has.
static carnot_status* widen(const cli_tensor* tensor, cli_arena* arena, cli_tensor* out) {
  carnot_dtype dtype = tensor->dtype;
  bool is_float = cli_dtype_is_float(dtype);
  CLI_TRY(
      cli_tensor_create(is_float ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_I64, &tensor->dims, arena, out));
  for (size_t i = 0; i < (size_t)cli_tensor_count(tensor); i++)
    if (is_float)
      carnot_element_set_f64(out->dtype, out->data, i, carnot_element_f64(dtype, tensor->data, i));
    else
      carnot_element_set_i64(out->dtype, out->data, i, carnot_element_i64(dtype, tensor->data, i));
  return NULL;
}

static carnot_status* write_npy(const char* path, const cli_tensor* t) {
  char header[512];
  int at = snprintf(header, sizeof(header),
                    "%c%s%c%c..{'descr': '%s', 'fortran_order': False, 'shape': (", 0x93, "NUMPY",
                    1, 0, kNpyTypes[npy_type(t->dtype)].descr);
  header[7] = 0;
  for (int d = 0; d < t->dims.rank; d++)
    at += snprintf(header + at, sizeof(header) - (size_t)at, "%lld,%s", (long long)t->dims.d[d],
                   d + 1 < t->dims.rank ? " " : "");
  at += snprintf(header + at, sizeof(header) - (size_t)at, "), }");
  while ((at + 1) % 64) header[at++] = ' ';
  header[at++] = '\n';
  header[8] = (char)((at - 10) & 255);
  header[9] = (char)((at - 10) >> 8);
  size_t bytes;
  CLI_TRY(cli_dims_bytes(t->dtype, &t->dims, &bytes));
  return carnot_write_file(path, (carnot_piece[]){{header, (size_t)at}, {t->data, bytes}}, 2);
}

carnot_status* cli_tensor_write_npy(const char* path, const cli_tensor* tensor) {
  if (npy_type(tensor->dtype) < kNpyTypeCount) return write_npy(path, tensor);
  CLI_CHECK(tensor->dtype != CARNOT_DTYPE_STRING, UNSUPPORTED, "text cannot be written to %s",
            path);
  cli_arena arena = {0};
  cli_tensor wide;
  carnot_status* status = widen(tensor, &arena, &wide);
  if (!status) status = write_npy(path, &wide);
  cli_arena_deinit(&arena);
  return status;
}

// ---- other files ----

static carnot_status* read_raw(const char* path, const cli_mapping* map,
                               const carnot_tensor_info* input, const carnot_dims* dims,
                               cli_arena* arena, cli_tensor* out) {
  size_t bytes;
  char text[128];
  CLI_TRY(cli_tensor_create(input->dtype, dims, arena, out));
  CLI_TRY(cli_dims_bytes(input->dtype, dims, &bytes));
  cli_dims_text(dims, text, sizeof(text));
  CLI_CHECK(bytes == map->size, INVALID_ARGUMENT, "%s holds %zu bytes, input %s as %s %s takes %zu",
            path, map->size, input->name, carnot_dtype_name(input->dtype), text, bytes);
  if (bytes) memcpy(out->data, map->data, bytes);
  return NULL;
}

static carnot_status* read_proto(const char* path, const cli_mapping* map, cli_arena* arena,
                                 const carnot_data** out_data) {
  carnot_data* data;
  CLI_TRY_AT(carnot_onnx_read_tensor(map->data, map->size, &data), "%s", path);
  CLI_TRY(cli_arena_own(arena, data));
  *out_data = data;
  return NULL;
}

bool cli_is_image(const char* path) {
  static const char* const kEndings[] = {".png",  ".jpg", ".jpeg", ".webp", ".tif",
                                         ".tiff", ".bmp", ".jp2",  ".j2k",  ".jpx",
                                         ".pnm",  ".ppm", ".pgm",  ".pbm",  ".gif"};
  for (size_t i = 0; i < CLI_COUNT(kEndings); i++)
    if (has_ending(path, kEndings[i])) return true;
  return false;
}

static carnot_status* read_mapped(const char* path, const cli_mapping* map,
                                  const carnot_tensor_info* input, const carnot_dims* dims,
                                  const cli_image_options* image, cli_arena* arena,
                                  const carnot_data** out_data) {
  if (has_ending(path, ".pb")) return read_proto(path, map, arena, out_data);
  cli_tensor tensor;
  if (has_ending(path, ".npy"))
    CLI_TRY(read_npy(path, map, arena, &tensor));
  else if (cli_is_image(path) && input)
    CLI_TRY(cli_image_read(path, map, input, dims, image, arena, &tensor));
  else if (input)
    CLI_TRY(read_raw(path, map, input, dims, arena, &tensor));
  else
    return CLI_ERROR(INVALID_ARGUMENT, "%s must be .npy or .pb, which name their type and shape",
                     path);
  return cli_tensor_as_data(&tensor, arena, out_data);
}

carnot_status* cli_tensor_read(const char* path, const carnot_tensor_info* input,
                               const carnot_dims* dims, const cli_image_options* image,
                               cli_arena* arena, const carnot_data** out_data) {
  cli_mapping map;
  *out_data = NULL;
  CLI_TRY(cli_map_file(path, &map));
  carnot_status* status = read_mapped(path, &map, input, dims, image, arena, out_data);
  cli_unmap(&map);
  return status;
}
