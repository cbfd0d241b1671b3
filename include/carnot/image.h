// Image files: decoding PNG, JPEG, WebP, TIFF, BMP, JPEG 2000, PNM and GIF, encoding PNG. The
// codecs are in libcarnot_codecs.so, which is opened the first time.
#ifndef CARNOT_IMAGE_H_
#define CARNOT_IMAGE_H_

#include <stddef.h>
#include <stdint.h>

#include "carnot/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct carnot_image {
  int64_t height, width;
  uint8_t* rgb;  // [height, width, 3]
} carnot_image;

// Decodes |bytes| [size]; the caller frees *out_image. |background| 0 to 255: the grey under
// transparent pixels of PNG and WebP; -1: transparency is ignored, as it is in other formats.
// INVALID_MODEL for a format that is not known or data that are broken, OUT_OF_RANGE above 2^28
// pixels, NOT_FOUND without the codecs. Any thread.
CARNOT_API carnot_status* carnot_image_decode(const void* bytes, size_t size, int background,
                                              carnot_image* out_image) CARNOT_MUST_USE;
// NULL pixels are allowed.
CARNOT_API void carnot_image_free(carnot_image* image);
// Encodes |pixels| [height, width, channels], 1 or 3 channels, as a PNG file at |path|, written as
// carnot_write_file does.
CARNOT_API carnot_status* carnot_image_write_png(const char* path, const uint8_t* pixels,
                                                 int64_t height, int64_t width,
                                                 int channels) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_IMAGE_H_
