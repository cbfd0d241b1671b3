// Image files for users, by the codecs module.
#include "carnot/image.h"

#include <stdlib.h>

#include "base/file.h"
#include "ops/codecs.h"

carnot_status* carnot_image_decode(const void* bytes, size_t size, int background,
                                   carnot_image* out_image) {
  *out_image = (carnot_image){0};
  const carnot_codecs* codecs;
  CARNOT_TRY(carnot_codecs_open(&codecs));
  int64_t height, width;
  const char* why = codecs->image_size(bytes, size, &height, &width);
  CARNOT_CHECK(!why, INVALID_MODEL, "the image cannot be decoded: %s", why);
  CARNOT_CHECK(height <= CARNOT_IMAGE_MOST_PIXELS / width, OUT_OF_RANGE,
               "an image of %lldx%lld pixels, at most %d are read", (long long)width,
               (long long)height, CARNOT_IMAGE_MOST_PIXELS);
  size_t count = (size_t)(height * width) * 3;
  uint8_t* rgb = malloc(count);
  if (!rgb) return CARNOT_NO_MEMORY(count, "an image");
  why = codecs->image_decode(bytes, size, background, height, width, rgb);
  if (why) free(rgb);
  CARNOT_CHECK(!why, INVALID_MODEL, "the image cannot be decoded: %s", why);
  *out_image = (carnot_image){height, width, rgb};
  return NULL;
}

void carnot_image_free(carnot_image* image) {
  free(image->rgb);
  *image = (carnot_image){0};
}

carnot_status* carnot_image_write_png(const char* path, const uint8_t* pixels, int64_t height,
                                      int64_t width, int channels) {
  const carnot_codecs* codecs;
  CARNOT_CHECK(channels == 1 || channels == 3, INVALID_ARGUMENT,
               "an image of %d channels, must have 1 or 3", channels);
  CARNOT_CHECK(height > 0 && width > 0, INVALID_ARGUMENT, "an image of %lldx%lld pixels",
               (long long)width, (long long)height);
  CARNOT_TRY(carnot_codecs_open(&codecs));
  carnot_piece piece;
  void* encoded;
  const char* why =
      codecs->image_encode_png(pixels, height, width, channels, &encoded, &piece.size);
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "the image cannot be encoded: %s", why);
  piece.data = encoded;
  carnot_status* status = carnot_write_file(path, &piece, 1);
  codecs->release(encoded);
  return status;
}
