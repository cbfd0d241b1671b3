// Images decoded to pixels.
//   bytes [n] of an image file → [height, width, channels] bytes; 3 channels as RGB or BGR, 1 as
//   Grayscale
// Bytes that break their format give an image of no pixels, as ONNX asks. Transparency is ignored.
// Grey is (19595 R + 38470 G + 7471 B + 32768) / 65536 (ITU-R BT.601). Source: ONNX
// ImageDecoder-20.
#include "ops/codecs.h"
#include "ops/infer_help.h"
#include "ops/util.h"

// Decoded pixels, always RGB.
typedef struct image {
  int64_t height, width;
  uint8_t* pixels;
} image;

static carnot_status* decode(const carnot_call* call, image* im, const void* bytes, size_t size) {
  const carnot_codecs* codecs;
  CARNOT_TRY(carnot_codecs_open(&codecs));
  int64_t height, width;
  if (codecs->image_size(bytes, size, &height, &width)) return NULL;
  CARNOT_CHECK(height <= CARNOT_IMAGE_MOST_PIXELS / width, OUT_OF_RANGE,
               "an image of %lld by %lld pixels, at most %d are allowed", (long long)height,
               (long long)width, CARNOT_IMAGE_MOST_PIXELS);
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, (size_t)(height * width) * 3, &memory));
  if (codecs->image_decode(bytes, size, /*background=*/-1, height, width, memory)) return NULL;
  *im = (image){height, width, memory};
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
  image im = {0};
  CARNOT_TRY(decode(call, &im, x->data, (size_t)carnot_tensor_count(x)));
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

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_WORD("pixel_format", "RGB", "RGB BGR Grayscale"), {0}};

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
