// Images by Leptonica, which reads PNG, JPEG, WebP, TIFF, BMP, JPEG 2000, PNM and GIF by the
// reference libraries of these formats.
#include "codecs/image.h"

#include <allheaders.h>
#include <stdbool.h>
#include <string.h>

#include "codecs/codecs.h"

static void say_nothing(const char* message) { (void)message; }

void codecs_images_quiet(void) {
  setMsgSeverity(L_SEVERITY_NONE);
  leptSetStderrHandler(say_nothing);
}

const char* codecs_image_size(const void* bytes, size_t size, int64_t* out_height,
                              int64_t* out_width) {
  l_int32 format, width = 0, height = 0, bits, samples, has_map;
  if (size < 12) return "the file is too short";
  if (pixReadHeaderMem(bytes, size, &format, &width, &height, &bits, &samples, &has_map))
    return "its format is not known, or its header is broken";
  *out_height = height;
  *out_width = width;
  return height > 0 && width > 0 ? NULL : "it has no pixels";
}

// A copy of |pix| with 32 bits a pixel; takes |pix|.
static PIX* as_rgb(PIX* pix, int background) {
  PIX* rgb = NULL;
  if (pixGetSpp(pix) == 4 && pixGetDepth(pix) == 32 && background >= 0) {
    l_uint32 grey = (l_uint32)background;
    rgb = pixAlphaBlendUniform(pix, grey << L_RED_SHIFT | grey << L_GREEN_SHIFT |
                                        grey << L_BLUE_SHIFT | 0xffu << L_ALPHA_SHIFT);
  } else if (pixGetDepth(pix) == 2 || pixGetDepth(pix) == 4 || pixGetDepth(pix) == 16) {
    PIX* bytes = pixConvertTo8(pix, 0);
    rgb = bytes ? pixConvertTo32(bytes) : NULL;
    pixDestroy(&bytes);
  } else {
    rgb = pixConvertTo32(pix);
  }
  pixDestroy(&pix);
  return rgb;
}

const char* codecs_image_decode(const void* bytes, size_t size, int background, int64_t height,
                                int64_t width, uint8_t* rgb) {
  PIX* pix = pixReadMem(bytes, size);
  if (!pix) return "its data are broken";
  // A palette may hold transparency, which pixConvertTo32 would drop.
  if (pixGetColormap(pix)) {
    PIX* full = pixRemoveColormap(pix, REMOVE_CMAP_WITH_ALPHA);
    if (!full) full = pixRemoveColormap(pix, REMOVE_CMAP_TO_FULL_COLOR);
    pixDestroy(&pix);
    if (!full) return "its palette is broken";
    pix = full;
  }
  pix = as_rgb(pix, background);
  if (!pix) return "no memory for its pixels";
  if (pixGetHeight(pix) != height || pixGetWidth(pix) != width) {
    pixDestroy(&pix);
    return "its size is not that of its header";
  }
  const l_uint32* words = pixGetData(pix);
  for (int64_t y = 0; y < height; y++, words += pixGetWpl(pix))
    for (int64_t x = 0; x < width; x++, rgb += 3) {
      rgb[0] = (uint8_t)(words[x] >> L_RED_SHIFT);
      rgb[1] = (uint8_t)(words[x] >> L_GREEN_SHIFT);
      rgb[2] = (uint8_t)(words[x] >> L_BLUE_SHIFT);
    }
  pixDestroy(&pix);
  return NULL;
}

const char* codecs_image_encode_png(const uint8_t* pixels, int64_t height, int64_t width,
                                    int channels, void** out_bytes, size_t* out_size) {
  if (height > INT32_MAX || width > INT32_MAX || height * width > CARNOT_IMAGE_MOST_PIXELS)
    return "it has too many pixels";
  PIX* pix = pixCreate((l_int32)width, (l_int32)height, channels == 3 ? 32 : 8);
  if (!pix) return "no memory for its pixels";
  l_uint32* words = pixGetData(pix);
  for (int64_t y = 0; y < height; y++, words += pixGetWpl(pix))
    for (int64_t x = 0; x < width; x++, pixels += channels) {
      if (channels == 3)
        words[x] = (l_uint32)pixels[0] << L_RED_SHIFT | (l_uint32)pixels[1] << L_GREEN_SHIFT |
                   (l_uint32)pixels[2] << L_BLUE_SHIFT | 0xffu << L_ALPHA_SHIFT;
      else
        SET_DATA_BYTE(words, x, pixels[0]);
    }
  l_uint8* bytes = NULL;
  bool failed = pixWriteMemPng(&bytes, out_size, pix, 0) != 0;
  pixDestroy(&pix);
  *out_bytes = bytes;
  return failed ? "it cannot be encoded" : NULL;
}

void codecs_release(void* bytes) { lept_free(bytes); }
