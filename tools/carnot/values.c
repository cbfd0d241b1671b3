// Tensors from and to files: .npy, TensorProto, raw, PNG, JPEG.
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <jpeglib.h>

#include "cli.h"
#include "import/onnx/onnx_proto.h"
#include "import/onnx/tensor_proto.h"

static bool has_ending(const char* path, const char* ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && strcasecmp(path + n - m, ending) == 0;
}

static carnot_status* new_tensor(carnot_dtype dtype, int rank, const int64_t* dims,
                                 carnot_arena* arena, carnot_cell* out) {
  *out = (carnot_cell){.kind = CARNOT_VALUE_TENSOR, .tensor = {.dtype = dtype, .rank = rank}};
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
                               carnot_cell* out) {
  size_t start;
  carnot_tensor t = {0};
  CARNOT_TRY(read_npy_header(path, map->data, map->size, &start, &t));
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(t.dtype, t.dims, t.rank, &bytes), "%s", path);
  CARNOT_CHECK(map->size - start >= bytes, INVALID_MODEL,
               "%s holds %zu bytes of data, its shape takes %zu", path, map->size - start, bytes);
  CARNOT_TRY_AT(new_tensor(t.dtype, t.rank, t.dims, arena, out), "%s", path);
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
    carnot_cell wide;
    bool is_float = carnot_dtype_is_float(t.dtype);
    status =
        new_tensor(is_float ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_I64, t.rank, t.dims, &arena, &wide);
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

// ---- pictures: decoded to RGB bytes ----

typedef struct picture {
  unsigned char* rgb;
  int64_t width, height;
} picture;

enum { kMaxSide = 32768 };

static carnot_status* read_png(const char* path, const carnot_mapping* map, picture* out) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  CARNOT_CHECK(png_image_begin_read_from_memory(&image, map->data, map->size), INVALID_MODEL,
               "%s: %s", path, image.message);
  image.format = PNG_FORMAT_RGB;
  carnot_status* status = NULL;
  if (image.width > kMaxSide || image.height > kMaxSide) {
    status = CARNOT_ERROR(OUT_OF_RANGE, "%s has %ux%u pixels, at most %d a side are read", path,
                          image.width, image.height, kMaxSide);
  } else {
    out->rgb = malloc(PNG_IMAGE_SIZE(image) + 1);
    png_color white = {255, 255, 255};
    if (!out->rgb)
      status = CARNOT_NO_MEMORY(PNG_IMAGE_SIZE(image), "a picture");
    else if (!png_image_finish_read(&image, &white, out->rgb, 0, NULL))
      status = CARNOT_ERROR(INVALID_MODEL, "%s: %s", path, image.message);
  }
  out->width = image.width;
  out->height = image.height;
  png_image_free(&image);
  return status;
}

typedef struct jpeg_failure {
  struct jpeg_error_mgr base;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
} jpeg_failure;

static void jpeg_failed(j_common_ptr info) {
  jpeg_failure* failure = (jpeg_failure*)info->err;
  info->err->format_message(info, failure->message);
  longjmp(failure->jump, 1);
}
static void jpeg_silent(j_common_ptr info) { (void)info; }

static carnot_status* read_jpeg(const char* path, const carnot_mapping* map, picture* out) {
  struct jpeg_decompress_struct info;
  jpeg_failure failure;
  info.err = jpeg_std_error(&failure.base);
  failure.base.error_exit = jpeg_failed;
  failure.base.output_message = jpeg_silent;
  if (setjmp(failure.jump)) {
    jpeg_destroy_decompress(&info);
    return CARNOT_ERROR(INVALID_MODEL, "%s: %s", path, failure.message);
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, map->data, map->size);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  out->width = info.output_width;
  out->height = info.output_height;
  size_t row = (size_t)out->width * 3;
  bool fits = out->width <= kMaxSide && out->height <= kMaxSide;
  out->rgb = fits ? malloc(row * (size_t)out->height + 1) : NULL;
  while (out->rgb && info.output_scanline < info.output_height) {
    unsigned char* line = out->rgb + row * info.output_scanline;
    jpeg_read_scanlines(&info, &line, 1);
  }
  jpeg_destroy_decompress(&info);
  CARNOT_CHECK(fits, OUT_OF_RANGE, "%s is larger than %d pixels a side", path, kMaxSide);
  return out->rgb ? NULL : CARNOT_NO_MEMORY(row * (size_t)out->height, "a picture");
}

// The mean over the part of the picture that a target pixel covers (area), or between the nearest
// four where it grows.
static double sample(const picture* p, int channel, double y0, double y1, double x0, double x1) {
  if (y1 - y0 < 1) y0 = (y0 + y1) / 2 - 0.5, y1 = y0 + 1;
  if (x1 - x0 < 1) x0 = (x0 + x1) / 2 - 0.5, x1 = x0 + 1;
  double sum = 0, weight = 0;
  for (int64_t y = (int64_t)(y0 < 0 ? y0 - 1 : y0); y < y1; y++) {
    double wy = (y + 1 < y1 ? y + 1 : y1) - (y > y0 ? (double)y : y0);
    for (int64_t x = (int64_t)(x0 < 0 ? x0 - 1 : x0); x < x1; x++) {
      double wx = (x + 1 < x1 ? x + 1 : x1) - (x > x0 ? (double)x : x0);
      int64_t cy = carnot_max_i64(0, carnot_min_i64(y, p->height - 1)),
              cx = carnot_max_i64(0, carnot_min_i64(x, p->width - 1));
      sum += wy * wx * p->rgb[(cy * p->width + cx) * 3 + channel];
      weight += wy * wx;
    }
  }
  return weight > 0 ? sum / weight : 0;
}

typedef struct picture_axes {
  int channel, row, column;
} picture_axes;

static carnot_status* find_axes(const carnot_plan_binding* b, const int64_t* dims,
                                const cli_image_options* options, picture_axes* out) {
  int rank = b->rank;
  CARNOT_CHECK(rank >= 2 && rank <= 4, INVALID_ARGUMENT,
               "input %s has %d dimensions, a picture fills 2 to 4", b->name, rank);
  if (rank == 2) {
    *out = (picture_axes){-1, 0, 1};
    return NULL;
  }
  bool last = options->layout && strcmp(options->layout, "nhwc") == 0;
  if (!options->layout)
    last = (dims[rank - 1] == 1 || dims[rank - 1] == 3 || dims[rank - 1] == 4) &&
           dims[rank - 3] != 1 && dims[rank - 3] != 3;
  *out = last ? (picture_axes){rank - 1, rank - 3, rank - 2}
              : (picture_axes){rank - 3, rank - 2, rank - 1};
  int64_t channels = dims[out->channel];
  CARNOT_CHECK(channels == 1 || channels == 3, INVALID_ARGUMENT,
               "input %s has %lld channels, a picture has 1 or 3 (is --layout right?)", b->name,
               (long long)channels);
  return NULL;
}

static carnot_status* fill_picture(const picture* p, const carnot_plan_binding* b,
                                   const carnot_dims* dims, const cli_image_options* options,
                                   carnot_arena* arena, carnot_cell* out) {
  picture_axes axes = {0};
  int64_t size[CARNOT_MAX_RANK];
  memcpy(size, dims->d, sizeof(size));
  CARNOT_TRY(find_axes(b, size, options, &axes));
  // Dimensions that the model leaves open take the picture's size.
  if (b->dims[axes.row] < 0 && dims->d[axes.row] <= 1) size[axes.row] = p->height;
  if (b->dims[axes.column] < 0 && dims->d[axes.column] <= 1) size[axes.column] = p->width;
  CARNOT_TRY(new_tensor(b->dtype, b->rank, size, arena, out));
  int64_t strides[CARNOT_MAX_RANK], channels = axes.channel < 0 ? 1 : size[axes.channel];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, b->rank, size, strides);
  double sy = (double)p->height / (double)size[axes.row],
         sx = (double)p->width / (double)size[axes.column];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t y = 0; y < size[axes.row]; y++)
      for (int64_t x = 0; x < size[axes.column]; x++) {
        double v = 0;
        static const double kGrey[3] = {0.299, 0.587, 0.114};
        for (int k = 0; k < (channels == 1 ? 3 : 1); k++)
          v += (channels == 1 ? kGrey[k] : 1) * sample(p, channels == 1 ? k : (int)c,
                                                       (double)y * sy, (double)(y + 1) * sy,
                                                       (double)x * sx, (double)(x + 1) * sx);
        if (options->mean_count) v -= (double)options->mean[c % options->mean_count];
        if (options->scale_count) v *= (double)options->scale[c % options->scale_count];
        int64_t at = y * strides[axes.row] + x * strides[axes.column] +
                     (axes.channel < 0 ? 0 : c * strides[axes.channel]);
        carnot_store_f64(b->dtype, out->tensor.data, (size_t)at, v);
      }
  return NULL;
}

static carnot_status* read_raw(const char* path, const carnot_mapping* map,
                               const carnot_plan_binding* b, const carnot_dims* dims,
                               carnot_arena* arena, carnot_cell* out) {
  CARNOT_TRY(new_tensor(b->dtype, dims->rank, dims->d, arena, out));
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
                               carnot_arena* arena, carnot_cell* out) {
  carnot_mapping map;
  CARNOT_TRY(carnot_map_file(path, &map));
  carnot_status* status;
  picture p = {0};
  if (has_ending(path, ".npy")) {
    status = read_npy(path, &map, arena, out);
  } else if (has_ending(path, ".pb")) {
    void* copy = carnot_arena_copy(arena, map.data, map.size);
    onnx_tensor* proto = CARNOT_NEW(arena, onnx_tensor);
    *out = (carnot_cell){.kind = CARNOT_VALUE_TENSOR};
    status = carnot_pb_read_wire(&carnot_onnx_tensor_message, copy, map.size, arena, proto);
    if (!status) status = carnot_onnx_tensor_read(proto, NULL, arena, &out->tensor);
    status = carnot_status_annotate(status, "%s", path);
  } else if (has_ending(path, ".png") || has_ending(path, ".jpg") || has_ending(path, ".jpeg")) {
    status = has_ending(path, ".png") ? read_png(path, &map, &p) : read_jpeg(path, &map, &p);
    if (!status) status = fill_picture(&p, b, dims, image, arena, out);
    free(p.rgb);
  } else {
    status = read_raw(path, &map, b, dims, arena, out);
  }
  carnot_unmap(&map);
  return status;
}

carnot_status* cli_write_png(const char* path, const carnot_tensor* t) {
  int rank = t->rank;
  CARNOT_CHECK(rank >= 2 && rank <= 4 && (rank < 4 || t->dims[0] == 1), UNSUPPORTED,
               "only one picture of 2 to 4 dimensions can be written to %s", path);
  bool last =
      rank > 2 && (t->dims[rank - 1] == 1 || t->dims[rank - 1] == 3) && t->dims[rank - 3] > 3;
  int64_t channels = rank == 2 ? 1 : last ? t->dims[rank - 1] : t->dims[rank - 3];
  int64_t height = t->dims[last ? rank - 3 : rank - 2], width = t->dims[last ? rank - 2 : rank - 1];
  CARNOT_CHECK(channels == 1 || channels == 3, UNSUPPORTED,
               "a picture has 1 or 3 channels, %s would have %lld", path, (long long)channels);
  unsigned char* pixels = malloc((size_t)(channels * height * width) + 1);
  if (!pixels) return CARNOT_NO_MEMORY(channels * height * width, "a picture");
  for (int64_t i = 0; i < height * width; i++)
    for (int64_t c = 0; c < channels; c++) {
      double v = carnot_load_f64(t->dtype, t->data,
                                 (size_t)(last ? i * channels + c : c * height * width + i));
      pixels[i * channels + c] = (unsigned char)(v < 0 || v != v ? 0 : v > 255 ? 255 : v + 0.5);
    }
  png_image image = {
      .version = PNG_IMAGE_VERSION, .width = (png_uint_32)width, .height = (png_uint_32)height};
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  carnot_status* status = NULL;
  void* encoded = NULL;
  if (png_image_write_get_memory_size(image, size, 0, pixels, 0, NULL)) encoded = malloc(size);
  if (!encoded || !png_image_write_to_memory(&image, encoded, &size, 0, pixels, 0, NULL))
    status = CARNOT_ERROR(IO, "%s: %s", path, image.message);
  if (!status) status = carnot_write_file(path, &(carnot_piece){encoded, size}, 1);
  free(encoded);
  free(pixels);
  return status;
}

carnot_status* cli_random_tensor(const carnot_plan_binding* b, const int64_t* dims,
                                 carnot_arena* arena, carnot_cell* out) {
  CARNOT_CHECK(b->dtype != CARNOT_DTYPE_STRING && carnot_dtype_valid(b->dtype), UNSUPPORTED,
               "input %s cannot be made up: it is no tensor of numbers", b->name);
  CARNOT_TRY(new_tensor(b->dtype, b->rank, dims, arena, out));
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
