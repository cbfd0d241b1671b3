// What the files of layers share.
#ifndef CARNOT_IMPORT_CAFFE_HANDLERS_H_
#define CARNOT_IMPORT_CAFFE_HANDLERS_H_

#include "import/caffe/importer.h"

extern const caffe_row_table caffe_rows_window, caffe_rows_matrix, caffe_rows_norm,
    caffe_rows_pointwise, caffe_rows_movement, caffe_rows_reduce, caffe_rows_recurrent,
    caffe_rows_detection, caffe_rows_resample, caffe_rows_region;

// The largest count of channels, features or pixels of a side that a parameter may ask for.
enum { CAFFE_MOST_SIZE = 1 << 26 };

// Dimension |axis| of input |i|; an error where it is not known.
int64_t caffe_dim(caffe_import* n, int i, int axis);
// The dimension count of input |i|; an error outside of [least, most].
int caffe_rank(caffe_import* n, int i, int least, int most);
// |axis|, which parameter |name| says, of |rank| dimensions as a non-negative number.
int caffe_axis_of(caffe_import* n, const char* name, int64_t axis, int rank);
// Parameter |name|, an axis of input 0, made non-negative.
int caffe_axis(caffe_import* n, const char* name, int64_t absent);
// A positive parameter; an error where it is absent or not in [1, most].
int64_t caffe_positive(caffe_import* n, const char* name, int64_t most);
// |x| for broadcasting with a value of |rank| dimensions, where its first is dimension |axis|.
carnot_value* caffe_align(caffe_import* n, carnot_value* x, int axis, int rank);
// A reduction over the dimensions from |first| on, which vanish.
carnot_value* caffe_reduce_to(caffe_import* n, const char* fn, carnot_value* x, int first);

// Caffe's pooling of two spatial dimensions, and its parameters.
typedef struct caffe_window {
  int rank;  // spatial dimensions
  int64_t kernel[CARNOT_MAX_RANK], stride[CARNOT_MAX_RANK], pad[CARNOT_MAX_RANK],
      dilation[CARNOT_MAX_RANK];
} caffe_window;
enum { CAFFE_POOL_MAX, CAFFE_POOL_AVERAGE, CAFFE_POOL_STOCHASTIC };
carnot_value* caffe_pool(caffe_import* n, carnot_value* x, const caffe_window* window, int64_t kind,
                         bool rounds_up, carnot_value** out_mask);

#endif  // CARNOT_IMPORT_CAFFE_HANDLERS_H_
