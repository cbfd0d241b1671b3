// Images by Leptonica; the functions are described in codecs.h.
#ifndef CARNOT_CODECS_IMAGE_H_
#define CARNOT_CODECS_IMAGE_H_

#include <stddef.h>
#include <stdint.h>

// Keeps Leptonica and its libraries from writing to the standard error.
void codecs_images_quiet(void);
const char* codecs_image_size(const void* bytes, size_t size, int64_t* out_height,
                              int64_t* out_width);
const char* codecs_image_decode(const void* bytes, size_t size, int background, int64_t height,
                                int64_t width, uint8_t* rgb);
const char* codecs_image_encode_png(const uint8_t* pixels, int64_t height, int64_t width,
                                    int channels, void** out_bytes, size_t* out_size);
void codecs_release(void* bytes);

#endif  // CARNOT_CODECS_IMAGE_H_
