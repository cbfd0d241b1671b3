// Tensors of the command line: in memory, from and to files, compared.
#ifndef CARNOT_TOOLS_TENSOR_H_
#define CARNOT_TOOLS_TENSOR_H_

#include <jansson.h>

#include "carnot/data.h"
#include "support.h"

// A dense row-major tensor whose elements somebody else owns; |data| is NULL for text.
typedef struct cli_tensor {
  carnot_dtype dtype;
  carnot_dims dims;
  void* data;
} cli_tensor;

// ---- tensor.c ----

bool cli_dtype_is_float(carnot_dtype dtype);
// The number of elements; INT64_MAX where it overflows.
int64_t cli_dims_count(const carnot_dims* dims);
int64_t cli_tensor_count(const cli_tensor* tensor);
// OUT_OF_RANGE for negative dimensions and sizes that overflow.
carnot_status* cli_dims_bytes(carnot_dtype dtype, const carnot_dims* dims,
                              size_t* out_bytes) CARNOT_MUST_USE;
// Zeroed elements in |arena|, aligned to 64 bytes.
carnot_status* cli_tensor_create(carnot_dtype dtype, const carnot_dims* dims, cli_arena* arena,
                                 cli_tensor* out) CARNOT_MUST_USE;
// The tensor that |data| is; it borrows.
cli_tensor cli_tensor_of(const carnot_data* data);
// The same numbers for a context; |arena| owns *out_data, which borrows the elements.
carnot_status* cli_tensor_as_data(const cli_tensor* tensor, cli_arena* arena,
                                  const carnot_data** out_data) CARNOT_MUST_USE;
// Made-up values for an input: floats in [-1, 1], integers in [0, 1000), ones for inputs named like
// masks.
carnot_status* cli_tensor_random(const carnot_tensor_info* input, const carnot_dims* dims,
                                 cli_arena* arena, cli_tensor* out) CARNOT_MUST_USE;

// ---- image_io.c ----

// How the pixels of a picture become elements: x = (pixel - mean) * scale by channel.
typedef struct cli_image_options {
  float mean[4], scale[4];
  int mean_count, scale_count;
  const char* layout;  // "nchw" or "nhwc"; NULL: guessed from the shape
} cli_image_options;
// The image file in |map|, scaled to |dims| of |input|; open dimensions take the picture's size.
// Elements are in |arena|.
carnot_status* cli_image_read(const char* path, const cli_mapping* map,
                              const carnot_tensor_info* input, const carnot_dims* dims,
                              const cli_image_options* options, cli_arena* arena,
                              cli_tensor* out) CARNOT_MUST_USE;
// Writes [1,3,H,W], [H,W,3], [1,1,H,W] and the like, with values 0 to 255, as a PNG.
carnot_status* cli_image_write(const char* path, const cli_tensor* tensor) CARNOT_MUST_USE;

// ---- tensor_io.c ----

// The tensor in the file |path| for |input|: .npy, .pb (TensorProto), an image by its
// ending, else raw bytes of |dims|. |input| and |dims| may be NULL for .npy and .pb. |arena| owns
// *out_data.
carnot_status* cli_tensor_read(const char* path, const carnot_tensor_info* input,
                               const carnot_dims* dims, const cli_image_options* image,
                               cli_arena* arena, const carnot_data** out_data) CARNOT_MUST_USE;
// True where the ending of |path| is that of a picture.
bool cli_is_image(const char* path);
// As .npy; types that NumPy lacks become float32 or int64. UNSUPPORTED for text.
carnot_status* cli_tensor_write_npy(const char* path, const cli_tensor* tensor) CARNOT_MUST_USE;

// ---- tensor_diff.c ----

// How far |a| is from |b|: |outside| elements by more than atol + rtol * |b|. Equal infinities, and
// NaN on both sides, agree.
typedef struct cli_tensor_diff {
  double max_abs, max_rel, cosine, worst_a, worst_b;
  double error;  // the root mean square of a - b by that of b; infinite where only b is 0
  int64_t worst, outside, count, not_finite;  // |not_finite|: on either side
} cli_tensor_diff;
// INVALID_ARGUMENT where the dimensions differ, UNSUPPORTED for text.
carnot_status* cli_tensor_compare(const char* name, const cli_tensor* a, const cli_tensor* b,
                                  double rtol, double atol, cli_tensor_diff* out) CARNOT_MUST_USE;
// The figures that --json prints of |name|; JSON has no infinity, which is 1e308 there.
json_t* cli_tensor_diff_json(const char* name, const cli_tensor_diff* difference);

#endif  // CARNOT_TOOLS_TENSOR_H_
