// libcarnot_codecs.so: the table of its functions.
#include "codecs/codecs.h"
#include "codecs/image.h"
#include "codecs/pattern.h"

static const carnot_codecs kCodecs = {.version = CARNOT_CODECS_VERSION,
                                      .image_size = codecs_image_size,
                                      .image_decode = codecs_image_decode,
                                      .image_encode_png = codecs_image_encode_png,
                                      .release = codecs_release,
                                      .pattern_compile = codecs_pattern_compile,
                                      .pattern_match = codecs_pattern_match,
                                      .pattern_free = codecs_pattern_free};

__attribute__((visibility("default"))) const carnot_codecs* carnot_codecs_entry(void);
const carnot_codecs* carnot_codecs_entry(void) {
  codecs_images_quiet();
  return &kCodecs;
}
