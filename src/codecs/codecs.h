// What libcarnot_codecs.so offers: image codecs (Leptonica) and regular expressions (PCRE2). The
// core links neither; it opens the module when an operator or a command needs it.
#ifndef CARNOT_CODECS_CODECS_H_
#define CARNOT_CODECS_CODECS_H_

#include <stddef.h>
#include <stdint.h>

enum { CARNOT_CODECS_VERSION = 1 };
enum { CARNOT_IMAGE_MOST_PIXELS = 1 << 28 };  // a small file may claim any size

typedef struct carnot_codecs {
  int version;  // CARNOT_CODECS_VERSION of the module

  // ---- images: PNG, JPEG, WebP, TIFF, BMP, JPEG 2000, PNM, GIF; the first of several pages ----
  // Functions return NULL, or what is wrong with the image.

  // The size of the image of |size| bytes, from its header.
  const char* (*image_size)(const void* bytes, size_t size, int64_t* out_height,
                            int64_t* out_width);
  // Decodes to |rgb| [height, width, 3] of the size that image_size gave. |background| 0 to 255:
  // the grey under transparent pixels; -1: transparency is ignored.
  const char* (*image_decode)(const void* bytes, size_t size, int background, int64_t height,
                              int64_t width, uint8_t* rgb);
  // Encodes |pixels| [height, width, channels] with 1 or 3 channels as a PNG; the caller frees
  // *out_bytes by release.
  const char* (*image_encode_png)(const uint8_t* pixels, int64_t height, int64_t width,
                                  int channels, void** out_bytes, size_t* out_size);
  void (*release)(void* bytes);

  // ---- patterns: UTF-8, matched against whole texts ----

  // NULL with the reason and place in |why| [size] for a pattern that is wrong.
  void* (*pattern_compile)(const char* pattern, size_t length, char* why, size_t size);
  // 1: |text| matches, 0: it does not, -1: matching takes too long or too much memory. One thread
  // at a time for a pattern.
  int (*pattern_match)(void* pattern, const char* text, size_t length);
  void (*pattern_free)(void* pattern);
} carnot_codecs;

// The symbol "carnot_codecs_entry" of the module.
typedef const carnot_codecs* carnot_codecs_entry_fn(void);

#endif  // CARNOT_CODECS_CODECS_H_
