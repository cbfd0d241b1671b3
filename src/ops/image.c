// Images decoded to pixels.
//   bytes [n] of a PNG or JPEG file → [height, width, channels] bytes; 3 channels as RGB or BGR, 1
//   as Grayscale
// Bytes that break their format give an image of no pixels, as ONNX asks; formats without a library
// are UNSUPPORTED. Grey is (19595 R + 38470 G + 7471 B + 32768) / 65536 (ITU-R BT.601). Source:
// ONNX ImageDecoder-20.
#include <setjmp.h>
#include <stdio.h>
// clang-format off: jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
// clang-format on
#include <png.h>

#include "ops/infer_help.h"

enum { kMostPixels = 1 << 28 };  // a tiny file may claim any size

// Decoded pixels, always RGB.
typedef struct image {
  const carnot_call* call;
  int64_t height, width;
  uint8_t* pixels;
} image;

static carnot_status* image_alloc(image* im, int64_t height, int64_t width) {
  CARNOT_CHECK(height > 0 && width > 0 && height <= kMostPixels / width, OUT_OF_RANGE,
               "an image of %lld by %lld pixels, at most %d are allowed", (long long)height,
               (long long)width, kMostPixels);
  void* memory;
  CARNOT_TRY(carnot_call_alloc(im->call, (size_t)(height * width) * 3, &memory));
  im->pixels = memory;
  im->height = height;
  im->width = width;
  return NULL;
}

// Leaves no pixels when the bytes are broken.
static carnot_status* decode_png(image* im, const uint8_t* bytes, size_t size) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_memory(&png, bytes, size)) return NULL;
  png.format = PNG_FORMAT_RGB;
  carnot_status* status = image_alloc(im, png.height, png.width);
  // Transparent pixels are shown on black.
  const png_color black = {0, 0, 0};
  if (!status && !png_image_finish_read(&png, &black, im->pixels, 0, NULL))
    im->height = im->width = 0;
  png_image_free(&png);
  return status;
}

typedef struct jpeg_escape {
  struct jpeg_error_mgr manager;
  jmp_buf out;
} jpeg_escape;

static void jpeg_leave(j_common_ptr info) { longjmp(((jpeg_escape*)info->err)->out, 1); }
static void jpeg_quiet(j_common_ptr info, int level) {
  (void)info;
  (void)level;
}

static carnot_status* decode_jpeg(image* im, const uint8_t* bytes, size_t size) {
  struct jpeg_decompress_struct info;
  jpeg_escape escape;
  memset(&info, 0, sizeof(info));
  info.err = jpeg_std_error(&escape.manager);
  escape.manager.error_exit = jpeg_leave;
  escape.manager.emit_message = jpeg_quiet;
  if (setjmp(escape.out)) {
    im->height = im->width = 0;
    jpeg_destroy_decompress(&info);
    return NULL;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes, size);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  carnot_status* status = image_alloc(im, info.output_height, info.output_width);
  while (!status && info.output_scanline < info.output_height) {
    JSAMPROW row = im->pixels + (size_t)info.output_scanline * (size_t)im->width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  if (!status) jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return status;
}

static bool starts_with(const uint8_t* bytes, size_t size, const char* magic, size_t length) {
  return size >= length && memcmp(bytes, magic, length) == 0;
}

static carnot_status* decode(image* im, const uint8_t* bytes, size_t size) {
  static const struct {
    const char* magic;
    size_t length;
    const char* name;
  } kOthers[] = {{"BM", 2, "BMP"},
                 {"II*\0", 4, "TIFF"},
                 {"MM\0*", 4, "TIFF"},
                 {"RIFF", 4, "WebP"},
                 {"\0\0\0\x0cjP", 6, "JPEG 2000"},
                 {"\xff\x4f\xff\x51", 4, "JPEG 2000"},
                 {"P", 1, "PNM"}};
  if (starts_with(bytes, size, "\x89PNG", 4)) return decode_png(im, bytes, size);
  if (starts_with(bytes, size, "\xff\xd8", 2)) return decode_jpeg(im, bytes, size);
  for (size_t i = 0; i < sizeof(kOthers) / sizeof(kOthers[0]); i++) {
    CARNOT_CHECK(!starts_with(bytes, size, kOthers[i].magic, kOthers[i].length), UNSUPPORTED,
                 "%s images cannot be decoded: Carnot is built without a library for them",
                 kOthers[i].name);
  }
  return NULL;
}

static carnot_status* read_format(const carnot_op_row* row, const carnot_attrs* attrs,
                                  int* out_channels, bool* out_bgr) {
  *out_bgr = carnot_attr_is(row, attrs, "pixel_format", "BGR");
  *out_channels = carnot_attr_is(row, attrs, "pixel_format", "Grayscale") ? 1 : 3;
  CARNOT_CHECK(*out_bgr || *out_channels == 1 || carnot_attr_is(row, attrs, "pixel_format", "RGB"),
               INVALID_MODEL, "pixel_format must be RGB, BGR or Grayscale");
  return NULL;
}

static carnot_status* infer_image(carnot_infer* infer) {
  const carnot_type* x;
  int channels;
  bool bgr;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_CHECK(x->dtype == CARNOT_DTYPE_U8, INVALID_MODEL, "input 0 has type %s, must be uint8",
               carnot_dtype_name(x->dtype));
  CARNOT_TRY(read_format(infer->row, infer->attrs, &channels, &bgr));
  const carnot_sym dims[3] = {carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED),
                              carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED),
                              carnot_sym_of(channels)};
  carnot_infer_set(infer, 0, CARNOT_DTYPE_U8, 3, dims);
  return NULL;
}

static carnot_status* run_image(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int channels;
  bool bgr;
  CARNOT_TRY(read_format(call->row, call->attrs, &channels, &bgr));
  image im = {.call = call};
  CARNOT_TRY(decode(&im, x->data, (size_t)carnot_tensor_count(x)));
  const int64_t dims[3] = {im.height, im.width, channels};
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_U8, 3, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  uint8_t* out = y->data;
  for (int64_t i = 0; i < im.height * im.width; i++) {
    const uint8_t* p = im.pixels + 3 * i;
    if (channels == 1) {
      out[i] = (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
      continue;
    }
    out[3 * i] = p[bgr ? 2 : 0];
    out[3 * i + 1] = p[1];
    out[3 * i + 2] = p[bgr ? 0 : 2];
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {{"pixel_format", CARNOT_ATTR_STRING, false, 0, "RGB"},
                                          {0}};

const carnot_op_row carnot_op_image_decoder = {
    .name = "image_decoder",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kAttrs,
    .infer = infer_image,
    .reference = run_image,
    .source = "ONNX ImageDecoder-20",
    .layer_type = "REFERENCE",
};
